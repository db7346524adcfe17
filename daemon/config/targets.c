/* SPDX-License-Identifier: Apache-2.0 */
/* Part of keys.h: the sections of a configuration that are for targets. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/config/keys.h"
#include "lib/base/duration.h"
#include "lib/base/glob.h"
#include "lib/base/macro.h"
#include "lib/base/number.h"
#include "lib/base/percent.h"

#define REQUESTS_MAX 1000000

__attribute__((format(printf, 3, 4))) static int refuse(char text[static CONFIG_TEXT], int error,
							const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, CONFIG_TEXT, format, ap);
	va_end(ap);
	return error;
}

static int take_text(const char *value, char **ret, const char **ret_filter, char *text)
{
	if (!*value)
		return refuse(text, -EINVAL, "a value is missing");
	*ret = strdup(value);
	if (!*ret)
		return refuse(text, -ENOMEM, "out of memory");
	*ret_filter = *ret;
	return 0;
}

static int take_path(struct config_target *target, const char *value, char *text)
{
	return take_text(value, &target->path, &target->filter.path, text);
}

static int take_model(struct config_target *target, const char *value, char *text)
{
	return take_text(value, &target->model, &target->filter.model, text);
}

static int take_slower_than(struct config_target *target, const char *value, char *text)
{
	if (duration_parse(value, &target->filter.slower_than_ns) < 0)
		return refuse(text, -EINVAL, "invalid duration '%.40s': use 500ms, 2s, 1.5s or 1m",
			      value);
	return 0;
}

static int take_max_overhead(struct config_target *target, const char *value, char *text)
{
	if (percent_parse(value, &target->max_overhead) < 0)
		return refuse(
			text, -EINVAL,
			"invalid percentage '%.40s': use 1, 0.5 or 20%%; above 0 and at most 100",
			value);
	return 0;
}

static int take_requests_count(struct config_target *target, const char *value, char *text)
{
	if (number_parse(value, 1, REQUESTS_MAX, &target->filter.count) < 0)
		return refuse(text, -EINVAL, "invalid count '%.40s': use 1 to %d", value,
			      REQUESTS_MAX);
	return 0;
}

static int take_level(struct config_target *target, const char *value, char *text)
{
	uint64_t number;

	if (number_parse(value, 1, 3, &number) < 0)
		return refuse(text, -EINVAL, "invalid level '%.40s': use 1, 2 or 3", value);
	target->level = (unsigned)number;
	return 0;
}

static int take_input_stages(struct config_target *target, const char *value, char *text)
{
	return config_take_bool(value, &target->input_stages, text);
}

static const struct {
	const char *name;
	int (*take)(struct config_target *target, const char *value, char *text);
} keys[] = {
	{ "slower-than", take_slower_than },
	{ "path", take_path },
	{ "model", take_model },
	{ "requests-count", take_requests_count },
	{ "max-overhead", take_max_overhead },
	{ "level", take_level },
	{ "input-stages", take_input_stages },
};

int config_target_take(struct config_target *target, unsigned *seen, const char *name,
		       const char *value, char text[static CONFIG_TEXT])
{
	int i = config_section_key(name, keys, ARRAY_SIZE(keys), sizeof(keys[0]), seen, text);

	return i < 0 ? i : keys[i].take(target, value, text);
}

int config_target_add(struct config *config, const char *pattern, size_t size,
		      struct config_target **ret, char text[static CONFIG_TEXT])
{
	struct config_target *t = &config->targets[config->n_targets];

	if (config->n_targets == CONFIG_TARGETS_MAX)
		return refuse(text, -E2BIG, "there are more than %d sections", CONFIG_TARGETS_MAX);
	t->pattern = strndup(pattern, size);
	if (!t->pattern)
		return refuse(text, -ENOMEM, "out of memory");
	config->n_targets++;
	*ret = t;
	return 0;
}

const struct config_target *config_find(const struct config *config, pid_t pid, const char *name)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", pid);
	for (unsigned i = 0; i < config->n_targets; i++)
		if (glob_matches(config->targets[i].pattern, name) ||
		    glob_matches(config->targets[i].pattern, number))
			return &config->targets[i];
	return NULL;
}
