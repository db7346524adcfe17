/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that all do the same. */
#pragma once

#include <pthread.h>
#include <stddef.h>

struct workers {
	pthread_t *threads;
	size_t n;
};

/* Returns 0 or a negative errno; threads that were started by then are to be stopped and joined. */
int workers_start(struct workers *w, size_t n, void *(*run)(void *argument), void *argument);
void workers_join(struct workers *w);
