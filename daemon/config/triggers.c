/* SPDX-License-Identifier: Apache-2.0 */
/* Part of keys.h: the sections of a configuration that make the flight recorder keep snapshots. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/config/keys.h"
#include "lib/base/duration.h"
#include "lib/base/macro.h"
#include "lib/base/number.h"
#include "lib/base/percent.h"

#define SECOND 1000000000ull
#define REQUESTS_MAX 1000000
#define WINDOW_NS (10 * SECOND)
#define WINDOW_MAX_NS (600 * SECOND)
#define LAST_NS (10 * SECOND)
/* A share of fewer requests means little. */
#define P99_REQUESTS 100
#define ERRORS_REQUESTS 20

__attribute__((format(printf, 2, 3))) static int refuse(char text[static CONFIG_TEXT],
							const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, CONFIG_TEXT, format, ap);
	va_end(ap);
	return -EINVAL;
}

static int set_condition(struct trigger_rule *rule, enum trigger_condition condition, char *text)
{
	if (rule->condition)
		return refuse(
			text,
			"a section has one condition: add another [trigger NAME] for this one");
	rule->condition = condition;
	return 0;
}

static int take_duration(const char *value, uint64_t *ret, char *text)
{
	if (duration_parse(value, ret) < 0)
		return refuse(text, "invalid duration '%.40s': use 500ms, 2s, 1.5s or 1m", value);
	return 0;
}

static int take_requests_number(const char *value, uint32_t *ret, char *text)
{
	uint64_t number;

	if (number_parse(value, 1, REQUESTS_MAX, &number) < 0)
		return refuse(text, "invalid number of requests '%.40s': use 1 to %d", value,
			      REQUESTS_MAX);
	*ret = (uint32_t)number;
	return 0;
}

static int take_model(struct trigger_rule *rule, const char *value, char *text)
{
	if (!*value)
		return refuse(text, "a value is missing");
	if (strlen(value) >= sizeof(rule->model))
		return refuse(text, "the value is longer than %zu bytes", sizeof(rule->model) - 1);
	strcpy(rule->model, value);
	return 0;
}

static int take_latency_above(struct trigger_rule *rule, const char *value, char *text)
{
	int r = set_condition(rule, TRIGGER_LATENCY, text);

	return r < 0 ? r : take_duration(value, &rule->latency_ns, text);
}

static int take_p99_above(struct trigger_rule *rule, const char *value, char *text)
{
	int r = set_condition(rule, TRIGGER_P99, text);

	return r < 0 ? r : take_duration(value, &rule->latency_ns, text);
}

static int take_error_rate_above(struct trigger_rule *rule, const char *value, char *text)
{
	int r = set_condition(rule, TRIGGER_ERRORS, text);

	if (r == 0 && (percent_parse(value, &rule->percent) < 0 || rule->percent >= 100))
		return refuse(
			text,
			"invalid percentage '%.40s': use 5%%, 0.5 or 20%%; above 0 and below 100",
			value);
	return r;
}

static int take_queue_above(struct trigger_rule *rule, const char *value, char *text)
{
	int r = set_condition(rule, TRIGGER_QUEUE, text);

	return r < 0 ? r : take_requests_number(value, &rule->queue, text);
}

static int take_requests(struct trigger_rule *rule, const char *value, char *text)
{
	return take_requests_number(value, &rule->requests, text);
}

static int take_window(struct trigger_rule *rule, const char *value, char *text)
{
	if (duration_parse(value, &rule->window_ns) < 0 || rule->window_ns < SECOND ||
	    rule->window_ns > WINDOW_MAX_NS)
		return refuse(text, "invalid duration '%.40s': use 1s, 30s or 1m; 1s to 10m",
			      value);
	return 0;
}

static int take_last(struct trigger_rule *rule, const char *value, char *text)
{
	return take_duration(value, &rule->last_ns, text);
}

static const struct {
	const char *name;
	int (*take)(struct trigger_rule *rule, const char *value, char *text);
} keys[] = {
	{ "model", take_model },
	{ "latency-above", take_latency_above },
	{ "p99-above", take_p99_above },
	{ "error-rate-above", take_error_rate_above },
	{ "queue-above", take_queue_above },
	{ "requests", take_requests },
	{ "window", take_window },
	{ "last", take_last },
};

int config_trigger_take(struct trigger_rule *rule, unsigned *seen, const char *name,
			const char *value, char text[static CONFIG_TEXT])
{
	int i = config_section_key(name, keys, ARRAY_SIZE(keys), sizeof(keys[0]), seen, text);

	return i < 0 ? i : keys[i].take(rule, value, text);
}

int config_trigger_add(struct config *config, const char *name, size_t size,
		       struct trigger_rule **ret, char text[static CONFIG_TEXT])
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
	struct trigger_rule *rule = &config->triggers[config->n_triggers];

	if (config->n_triggers == TRIGGERS_MAX)
		return refuse(text, "there are more than %d sections [trigger NAME]", TRIGGERS_MAX);
	if (size >= sizeof(rule->name) || strspn(name, letters) < size)
		return refuse(
			text,
			"invalid name of a trigger: use up to %zu letters, digits, '-' and '_', of which names of files are made",
			sizeof(rule->name) - 1);
	for (unsigned i = 0; i < config->n_triggers; i++)
		if (strlen(config->triggers[i].name) == size &&
		    !strncmp(config->triggers[i].name, name, size))
			return refuse(text, "there are two sections [trigger %.*s]", (int)size,
				      name);
	/* Also what lies between its members: configurations are compared. */
	memset(rule, 0, sizeof(*rule));
	memcpy(rule->name, name, size);
	config->n_triggers++;
	*ret = rule;
	return 0;
}

/* Whether one directory is the other, or in it. */
static bool is_within(const char *path, const char *directory)
{
	size_t n = strlen(directory);

	while (n && directory[n - 1] == '/')
		n--;
	return !strncmp(path, directory, n) && (path[n] == '/' || !path[n]);
}

static int finish(const struct config *config, struct trigger_rule *rule, char *text)
{
	const char *name = rule->name;

	if (!rule->condition)
		return refuse(
			text,
			"[trigger %s] has no condition: give latency-above, p99-above, error-rate-above or queue-above",
			name);
	if (!config->recorder.level)
		return refuse(
			text,
			"[trigger %s] keeps what the flight recorder holds: turn it on with recorder = 1",
			name);
	if (!*config->snapshots.directory)
		return refuse(
			text,
			"[trigger %s] needs a place for its snapshots: name one with snapshot-directory",
			name);
	if (rule->condition == TRIGGER_QUEUE && (rule->requests || rule->window_ns || *rule->model))
		return refuse(
			text,
			"[trigger %s]: queue-above counts requests in progress, of all models: leave out requests, window and model",
			name);
	/* Without them for a queue: what is complete is looked at again after SIGHUP. */
	if (!rule->requests && rule->condition != TRIGGER_QUEUE)
		rule->requests = rule->condition == TRIGGER_P99      ? P99_REQUESTS
				 : rule->condition == TRIGGER_ERRORS ? ERRORS_REQUESTS
								     : 1;
	if (!rule->window_ns && rule->condition != TRIGGER_QUEUE)
		rule->window_ns = WINDOW_NS;
	if (!rule->last_ns)
		rule->last_ns = MIN(LAST_NS, config->recorder.last_ns);
	if (rule->last_ns > config->recorder.last_ns)
		return refuse(
			text,
			"[trigger %s]: last is longer than the recorder keeps: lower it, or raise recorder-last",
			name);
	return 0;
}

int config_triggers_finish(struct config *config, char text[static CONFIG_TEXT])
{
	int r = 0;

	if (*config->snapshots.directory &&
	    (is_within(config->snapshots.directory, config->state) ||
	     is_within(config->state, config->snapshots.directory)))
		return refuse(
			text,
			"snapshot-directory must be a directory of its own: neither state-dir, nor in it, nor around it");
	for (unsigned i = 0; i < config->n_triggers && r == 0; i++)
		r = finish(config, &config->triggers[i], text);
	return r;
}
