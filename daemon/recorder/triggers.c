/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/recorder/triggers.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/macro.h"

struct triggers {
	struct triggers_options options;
	/* Of the recorder's thread. */
	struct trigger_rule rules[TRIGGERS_MAX];
	unsigned n;
	bool count_queue;
	struct correlate_target targets[RECORD_MAX_TARGETS];
	unsigned n_targets;
	struct trigger_state states[RECORD_MAX_TARGETS][TRIGGERS_MAX];
	/* Protected by the lock. */
	pthread_mutex_t lock;
	struct trigger_firing waiting[TRIGGERS_MAX];
	bool waits[TRIGGERS_MAX];
	bool is_posted;
	struct trigger_rule next[TRIGGERS_MAX]; /* rules that it has not taken yet */
	unsigned n_next;
	bool has_next; /* also read without it */
};

static void set_rules(struct triggers *t, const struct trigger_rule *rules, unsigned n)
{
	t->n = MIN(n, (unsigned)TRIGGERS_MAX);
	memcpy(t->rules, rules, t->n * sizeof(t->rules[0]));
	t->count_queue = false;
	for (unsigned i = 0; i < t->n; i++)
		t->count_queue |= t->rules[i].condition == TRIGGER_QUEUE;
}

int triggers_new(const struct triggers_options *options, struct triggers **ret)
{
	struct triggers *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->options = *options;
	t->options.rules = NULL;
	if (options->n)
		set_rules(t, options->rules, options->n);
	pthread_mutex_init(&t->lock, NULL);
	*ret = t;
	return 0;
}

struct triggers *triggers_free(struct triggers *t)
{
	if (t)
		pthread_mutex_destroy(&t->lock);
	free(t);
	return NULL;
}

void triggers_begin(struct triggers *t)
{
	if (!t)
		return;
	t->n_targets = 0;
	memset(t->states, 0, sizeof(t->states));
}

void triggers_add_target(struct triggers *t, const struct correlate_target *target)
{
	if (t && t->n_targets < RECORD_MAX_TARGETS)
		t->targets[t->n_targets++] = *target;
}

static void on_posted(void *data)
{
	struct triggers *t = data;
	struct trigger_firing firings[TRIGGERS_MAX];
	unsigned n = 0;

	pthread_mutex_lock(&t->lock);
	t->is_posted = false;
	for (unsigned i = 0; i < TRIGGERS_MAX; i++) {
		if (t->waits[i])
			firings[n++] = t->waiting[i];
		t->waits[i] = false;
	}
	pthread_mutex_unlock(&t->lock);
	for (unsigned i = 0; i < n; i++)
		t->options.fired(&firings[i], t->options.data);
}

static void fire(struct triggers *t, unsigned target, unsigned rule, struct trigger_firing *firing)
{
	memcpy(firing->trigger, t->rules[rule].name, sizeof(firing->trigger));
	firing->pid = (pid_t)t->targets[target].pid;
	memcpy(firing->process, t->targets[target].name, sizeof(firing->process) - 1);
	pthread_mutex_lock(&t->lock);
	if (!t->waits[rule])
		t->waiting[rule] = *firing;
	t->waits[rule] = true;
	/* Without memory it waits for the next firing. */
	if (!t->is_posted)
		t->is_posted = loop_post(t->options.loop, on_posted, t) == 0;
	pthread_mutex_unlock(&t->lock);
}

void triggers_set(struct triggers *t, const struct trigger_rule *rules, unsigned n)
{
	pthread_mutex_lock(&t->lock);
	t->n_next = MIN(n, (unsigned)TRIGGERS_MAX);
	if (t->n_next)
		memcpy(t->next, rules, t->n_next * sizeof(t->next[0]));
	__atomic_store_n(&t->has_next, true, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&t->lock);
}

/* The states of the target by the new rules. */
static void carry_over(const struct triggers *t, struct trigger_state *states)
{
	struct trigger_state was[TRIGGERS_MAX];

	memcpy(was, states, sizeof(was));
	for (unsigned i = 0; i < TRIGGERS_MAX; i++) {
		states[i] = (struct trigger_state){};
		for (unsigned k = 0; i < t->n_next && k < t->n; k++)
			if (!memcmp(&t->next[i], &t->rules[k], sizeof(t->rules[k])))
				states[i] = was[k];
	}
}

static bool is_next(const struct triggers *t, const char *name)
{
	for (unsigned i = 0; i < t->n_next; i++)
		if (!strcmp(t->next[i].name, name))
			return true;
	return false;
}

/* What has fired by rules that are gone, and was not reported, is forgotten. */
static void take_next(struct triggers *t)
{
	if (!__atomic_load_n(&t->has_next, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&t->lock);
	for (unsigned i = 0; i < RECORD_MAX_TARGETS; i++)
		carry_over(t, t->states[i]);
	for (unsigned i = 0; i < TRIGGERS_MAX; i++)
		t->waits[i] &= is_next(t, t->waiting[i].trigger);
	set_rules(t, t->next, t->n_next);
	t->has_next = false;
	pthread_mutex_unlock(&t->lock);
}

void triggers_on_request(struct triggers *t, const struct finished_request *request)
{
	if (t)
		take_next(t);
	for (unsigned i = 0; t && i < t->n && request->process < t->n_targets; i++) {
		struct trigger_firing firing = {};

		if (trigger_on_request(&t->rules[i], &t->states[request->process][i], request,
				       firing.reason))
			fire(t, request->process, i, &firing);
	}
}

bool triggers_count_queue(struct triggers *t)
{
	if (t)
		take_next(t);
	return t && t->count_queue;
}

void triggers_on_queue(struct triggers *t, unsigned target, uint32_t n)
{
	for (unsigned i = 0; i < t->n && target < t->n_targets; i++) {
		struct trigger_firing firing = {};

		if (trigger_on_queue(&t->rules[i], &t->states[target][i], n, firing.reason))
			fire(t, target, i, &firing);
	}
}
