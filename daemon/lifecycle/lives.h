/* SPDX-License-Identifier: Apache-2.0 */
/* What is known about each process: a table that the loop's thread and the watching thread
 * share. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/discovery/targets.h"
#include "daemon/lifecycle/lifecycle.h"

struct life {
	bool used, waits;  /* waits: to be watched */
	uint64_t again_ns; /* it waits, and is not tried before */
	struct target target;
	struct lifecycle lifecycle;
};

struct lives {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Protected by the lock. */
	bool ending;
	struct life list[TARGETS_MAX];
};

/* With the lock held: NULL: there is none. */
struct life *lives_find(struct lives *l, uint32_t program);
/* With the lock held: sets why some of it is unknown. */
void life_note(struct life *life, const char *text);
/* With the lock held: whether it is to be tried now. */
bool life_is_due(const struct life *life, uint64_t now);

/* These take the lock. */
void lives_note(struct lives *l, uint32_t program, const char *text);
/* why: a sentence without its period, NULL: there is nothing more to record. */
void lives_stop_watching(struct lives *l, uint32_t program, const char *why);
/* Takes the next one off the list of those that wait; false: none is due. */
bool lives_take_waiting(struct lives *l, struct target *ret);
/* Makes it wait for a second. */
void lives_wait_again(struct lives *l, uint32_t program);
