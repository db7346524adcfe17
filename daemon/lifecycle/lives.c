/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/lifecycle/lives.h"

#include <stdio.h>

#include "lib/base/loop.h"

/* Delay after there was no room, or a session could not begin. */
#define LIVES_AGAIN_NS 1000000000ull

struct life *lives_find(struct lives *l, uint32_t program)
{
	for (unsigned i = 0; i < TARGETS_MAX; i++)
		if (l->list[i].used && l->list[i].target.program == program)
			return &l->list[i];
	return NULL;
}

void life_note(struct life *life, const char *text)
{
	snprintf(life->lifecycle.note, sizeof(life->lifecycle.note), "%s", text);
}

void lives_note(struct lives *l, uint32_t program, const char *text)
{
	struct life *life;

	pthread_mutex_lock(&l->lock);
	life = lives_find(l, program);
	if (life)
		life_note(life, text);
	pthread_mutex_unlock(&l->lock);
}

void lives_stop_watching(struct lives *l, uint32_t program, const char *why)
{
	struct life *life;

	pthread_mutex_lock(&l->lock);
	life = lives_find(l, program);
	if (life && life->lifecycle.is_watched) {
		life->lifecycle.is_watched = false;
		life->lifecycle.startup.unwatched_ns = loop_now();
	}
	if (life && why)
		life_note(life, why);
	pthread_mutex_unlock(&l->lock);
}

bool life_is_due(const struct life *life, uint64_t now)
{
	return life->used && life->waits && life->again_ns <= now;
}

bool lives_take_waiting(struct lives *l, struct target *ret)
{
	uint64_t now = loop_now();
	bool found = false;

	pthread_mutex_lock(&l->lock);
	for (unsigned i = 0; i < TARGETS_MAX && !found; i++)
		if (life_is_due(&l->list[i], now)) {
			l->list[i].waits = false;
			*ret = l->list[i].target;
			found = true;
		}
	pthread_mutex_unlock(&l->lock);
	return found;
}

void lives_wait_again(struct lives *l, uint32_t program)
{
	struct life *life;

	pthread_mutex_lock(&l->lock);
	life = lives_find(l, program);
	if (life) {
		life->waits = true;
		life->again_ns = loop_now() + LIVES_AGAIN_NS;
	}
	pthread_mutex_unlock(&l->lock);
}
