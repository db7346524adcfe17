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
	struct {
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
	struct triggered_counts *counts = &t->states[job->firing.trigger].counts;
	char window[DURATION_TEXT];

	if (result->error == -EALREADY) {
		counts->too_soon++;
	} else if (result->error) {
		counts->failed++;
		log_warning(
			"trigger %s: no snapshot of process %d (%s): %s; the reason for one: %s",
			counts->name, job->firing.pid, job->firing.process, result->text,
			job->firing.reason);
	} else {
		counts->kept++;
		log_info("trigger %s: kept %s, %llu bytes, the last %s, of process %d (%s): %s",
			 counts->name, job->file.name, (unsigned long long)job->file.bytes,
			 duration_text(result->window_ns, window), job->firing.pid,
			 job->firing.process, job->firing.reason);
	}
	free(job);
	t->is_busy = false;
	begin_next(t);
}

static int begin(struct triggered *t, const struct trigger_firing *firing)
{
	struct service *s = t->service;
	struct keeping_job *job = malloc(sizeof(*job));
	struct snapshot_request request = { .who.is_root = true,
					    .last_ns = t->rules[firing->trigger].last_ns,
					    .keeping = { .keep = keep },
					    .done = on_done,
					    .data = job };
	struct recording_note *note = &request.keeping.note;
	int r;

	if (!job)
		return -ENOMEM;
	*job = (struct keeping_job){ .triggered = t, .proxy = s->options.proxy, .firing = *firing };
	snprintf(note->trigger, sizeof(note->trigger), "%s", t->rules[firing->trigger].name);
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
		r = begin(t, firing);
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
	struct triggered_counts *counts = &t->states[firing->trigger].counts;
	uint64_t now = loop_now(), *begun = &t->states[firing->trigger].begun_ns;

	/* The broker holds them to it, too. */
	if (*begun && now - *begun < t->interval_ns) {
		counts->too_soon++;
		return;
	}
	*begun = now;
	t->states[firing->trigger].firing = *firing;
	t->states[firing->trigger].waits = true;
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
	if (!config->n_triggers)
		return 0;
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

struct triggered *triggered_free(struct triggered *t)
{
	if (t)
		triggers_free(t->triggers);
	free(t);
	return NULL;
}

struct triggers *triggered_rules(const struct triggered *t)
{
	return t ? t->triggers : NULL;
}

bool triggered_count(const struct triggered *t, unsigned index, struct triggered_counts *ret)
{
	if (!t || index >= t->n)
		return false;
	*ret = t->states[index].counts;
	return true;
}
