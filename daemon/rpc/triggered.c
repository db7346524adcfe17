/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/triggered.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/recorder/keeping.h"
#include "lib/base/duration.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

struct triggered {
	struct service *service;
	struct trigger_rule rules[TRIGGERS_MAX];
	unsigned n;
	uint64_t interval_ns;
	struct triggers *triggers;
	bool is_busy; /* one snapshot is made at a time */
	struct state {
		struct triggered_counts counts;
		uint64_t begun_ns; /* 0: never */
		/* It fired while another one's was made. */
		bool waits;
		struct trigger_firing firing;
	} states[TRIGGERS_MAX];
};

/* A snapshot that is being made. */
struct keeping_job {
	struct triggered *triggered;
	struct proxy *proxy;
	struct trigger_firing firing;
	struct kept_file file;
};

/* -1: there is none any more. */
static int find(const struct triggered *t, const char *name)
{
	for (unsigned i = 0; i < t->n; i++)
		if (!strcmp(t->rules[i].name, name))
			return (int)i;
	return -1;
}

/* In the snapshot's thread. */
static int keep(struct capture_result *result, uint32_t capture, void *data)
{
	struct keeping_job *job = data;

	return keeping_write(job->proxy, job->firing.trigger, job->firing.pid, capture, result,
			     &job->file);
}

static void begin_next(struct triggered *t);

static void on_done(struct capture_result *result, void *data)
{
	struct keeping_job *job = data;
	struct triggered *t = job->triggered;
	struct triggered_counts forgotten = {}, *counts;
	char window[DURATION_TEXT];
	int i = find(t, job->firing.trigger);

	counts = i < 0 ? &forgotten : &t->states[i].counts;
	if (result->error == -EALREADY) {
		counts->too_soon++;
	} else if (result->error) {
		counts->failed++;
		log_warning(
			"trigger %s: no snapshot of process %d (%s): %s; the reason for one: %s",
			job->firing.trigger, job->firing.pid, job->firing.process, result->text,
			job->firing.reason);
	} else {
		counts->kept++;
		log_info("trigger %s: kept %s, %llu bytes, the last %s, of process %d (%s): %s",
			 job->firing.trigger, job->file.name, (unsigned long long)job->file.bytes,
			 duration_text(result->window_ns, window), job->firing.pid,
			 job->firing.process, job->firing.reason);
	}
	free(job);
	t->is_busy = false;
	begin_next(t);
}

static int begin(struct triggered *t, const struct trigger_rule *rule,
		 const struct trigger_firing *firing)
{
	struct service *s = t->service;
	struct keeping_job *job = malloc(sizeof(*job));
	struct snapshot_request request = { .who.is_root = true,
					    .last_ns = rule->last_ns,
					    .keeping = { .keep = keep },
					    .done = on_done,
					    .data = job };
	struct recording_note *note = &request.keeping.note;
	int r;

	if (!job)
		return -ENOMEM;
	*job = (struct keeping_job){ .triggered = t, .proxy = s->options.proxy, .firing = *firing };
	snprintf(note->trigger, sizeof(note->trigger), "%s", rule->name);
	snprintf(note->reason, sizeof(note->reason), "%s", firing->reason);
	snprintf(note->process, sizeof(note->process), "%s", firing->process);
	note->pid = firing->pid;
	r = recorder_snapshot(s->recorder, &request);
	if (r < 0)
		free(job);
	else
		t->is_busy = true;
	return r;
}

static void begin_next(struct triggered *t)
{
	for (unsigned i = 0; i < t->n && !t->is_busy; i++) {
		const struct trigger_firing *firing = &t->states[i].firing;
		int r;

		if (!t->states[i].waits)
			continue;
		t->states[i].waits = false;
		if (!t->service->recorder || t->service->recorder_ends)
			continue;
		r = begin(t, &t->rules[i], firing);
		if (r == 0)
			continue;
		t->states[i].counts.failed++;
		log_warning("trigger %s: no snapshot of process %d (%s): %s", t->rules[i].name,
			    firing->pid, firing->process,
			    r == -EBUSY ? "too many snapshots are being made" : strerror(-r));
	}
}

static void on_fired(const struct trigger_firing *firing, void *data)
{
	struct triggered *t = data;
	uint64_t now = loop_now();
	int i = find(t, firing->trigger);
	struct state *state = &t->states[MAX(i, 0)];

	if (i < 0)
		return;
	/* The broker holds them to it, too. */
	if (state->begun_ns && now - state->begun_ns < t->interval_ns) {
		state->counts.too_soon++;
		return;
	}
	state->begun_ns = now;
	state->firing = *firing;
	state->waits = true;
	begin_next(t);
}

int triggered_new(struct service *s, struct triggered **ret)
{
	const struct config *config = s->options.config;
	struct triggers_options options = { .loop = s->options.loop,
					    .rules = config->triggers,
					    .n = config->n_triggers,
					    .fired = on_fired };
	struct triggered *t;
	int r;

	*ret = NULL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	options.data = t;
	t->service = s;
	t->n = config->n_triggers;
	t->interval_ns = config->snapshots.interval_ns;
	memcpy(t->rules, config->triggers, sizeof(t->rules));
	for (unsigned i = 0; i < t->n; i++)
		t->states[i].counts.name = t->rules[i].name;
	r = triggers_new(&options, &t->triggers);
	if (r < 0)
		return triggered_free(t), r;
	*ret = t;
	return 0;
}

/* One line for each that is not what it was. */
static void report_change(const struct triggered *t, const struct config *config)
{
	for (unsigned i = 0; i < config->n_triggers; i++) {
		const struct trigger_rule *rule = &config->triggers[i];
		int was = find(t, rule->name);

		if (was < 0)
			log_info("trigger %s: added", rule->name);
		else if (memcmp(rule, &t->rules[was], sizeof(*rule)))
			log_info("trigger %s: changed", rule->name);
	}
	for (unsigned i = 0; i < t->n; i++) {
		unsigned k = 0;

		while (k < config->n_triggers && strcmp(config->triggers[k].name, t->rules[i].name))
			k++;
		if (k == config->n_triggers)
			log_info("trigger %s: removed", t->rules[i].name);
	}
}

void triggered_set(struct triggered *t, const struct config *config)
{
	struct state states[TRIGGERS_MAX] = {};

	report_change(t, config);
	for (unsigned i = 0; i < config->n_triggers; i++) {
		int was = find(t, config->triggers[i].name);

		if (was >= 0)
			states[i] = t->states[was];
		states[i].counts.name = t->rules[i].name;
	}
	memcpy(t->states, states, sizeof(states));
	memcpy(t->rules, config->triggers, sizeof(t->rules));
	t->n = config->n_triggers;
	triggers_set(t->triggers, t->rules, t->n);
}

struct triggered *triggered_free(struct triggered *t)
{
	if (t)
		triggers_free(t->triggers);
	free(t);
	return NULL;
}

struct triggers *triggered_rules(const struct triggered *t)
{
	return t->triggers;
}

bool triggered_count(const struct triggered *t, unsigned index, struct triggered_counts *ret)
{
	if (index >= t->n)
		return false;
	*ret = t->states[index].counts;
	return true;
}
