/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/cond.h"

#include <time.h>

void cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attributes);
	pthread_condattr_destroy(&attributes);
}

void cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t at_ns)
{
	struct timespec until = { .tv_sec = (time_t)(at_ns / 1000000000),
				  .tv_nsec = (long)(at_ns % 1000000000) };

	pthread_cond_timedwait(cond, lock, &until);
}
