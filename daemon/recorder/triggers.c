/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/recorder/triggers.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/macro.h"

struct triggers {
	struct triggers_options options;
	struct trigger_rule rules[TRIGGERS_MAX];
	/* Of the recorder's thread. */
	struct correlate_target targets[RECORD_MAX_TARGETS];
	unsigned n_targets;
	struct trigger_state states[RECORD_MAX_TARGETS][TRIGGERS_MAX];
	/* Protected by the lock. */
	pthread_mutex_t lock;
	struct trigger_firing waiting[TRIGGERS_MAX];
	bool waits[TRIGGERS_MAX];
	bool is_posted;
};

int triggers_new(const struct triggers_options *options, struct triggers **ret)
{
	struct triggers *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->options = *options;
	t->options.n = MIN(options->n, (unsigned)TRIGGERS_MAX);
	memcpy(t->rules, options->rules, t->options.n * sizeof(t->rules[0]));
	t->options.rules = t->rules;
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
	for (unsigned i = 0; i < t->options.n; i++) {
		if (t->waits[i])
			firings[n++] = t->waiting[i];
		t->waits[i] = false;
	}
	pthread_mutex_unlock(&t->lock);
	for (unsigned i = 0; i < n; i++)
		t->options.fired(&firings[i], t->options.data);
}

static void fire(struct triggers *t, unsigned target, struct trigger_firing *firing)
{
	firing->pid = (pid_t)t->targets[target].pid;
	memcpy(firing->process, t->targets[target].name, sizeof(firing->process) - 1);
	pthread_mutex_lock(&t->lock);
	if (!t->waits[firing->trigger])
		t->waiting[firing->trigger] = *firing;
	t->waits[firing->trigger] = true;
	/* Without memory it waits for the next firing. */
	if (!t->is_posted)
		t->is_posted = loop_post(t->options.loop, on_posted, t) == 0;
	pthread_mutex_unlock(&t->lock);
}

void triggers_on_request(struct triggers *t, const struct finished_request *request)
{
	for (unsigned i = 0; t && i < t->options.n && request->process < t->n_targets; i++) {
		struct trigger_firing firing = { .trigger = i };

		if (trigger_on_request(&t->rules[i], &t->states[request->process][i], request,
				       firing.reason))
			fire(t, request->process, &firing);
	}
}

void triggers_on_queue(struct triggers *t, unsigned target, uint32_t n)
{
	for (unsigned i = 0; i < t->options.n && target < t->n_targets; i++) {
		struct trigger_firing firing = { .trigger = i };

		if (trigger_on_queue(&t->rules[i], &t->states[target][i], n, firing.reason))
			fire(t, target, &firing);
	}
}
