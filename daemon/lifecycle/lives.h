/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of each process: a table that the loop's thread and the watching one share. */
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
	/* Under the lock. */
	bool ending;
	struct life list[TARGETS_MAX];
};

/* Under the lock: NULL, there is none. */
struct life *lives_find(struct lives *l, uint32_t program);
/* Under the lock: why not all of it is known. */
void life_note(struct life *life, const char *text);
/* Under the lock: whether it is to be tried now. */
bool life_is_due(const struct life *life, uint64_t now);

/* These take the lock. */
void lives_note(struct lives *l, uint32_t program, const char *text);
/* why: a sentence without its point, NULL: nothing more is to be seen. */
void lives_stop_watching(struct lives *l, uint32_t program, const char *why);
/* Taken off the list of those that wait; false: nobody is to be tried now. */
bool lives_take_waiting(struct lives *l, struct target *ret);
/* It waits for a second. */
void lives_wait_again(struct lives *l, uint32_t program);
