/* SPDX-License-Identifier: Apache-2.0 */
/* Condition variables whose waits end by CLOCK_MONOTONIC, the clock of loop_now(). */
#pragma once

#include <pthread.h>
#include <stdint.h>

void cond_init(pthread_cond_t *cond);

/* Call with the lock held. Returns at at_ns, on a signal, or spuriously. */
void cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t at_ns);
