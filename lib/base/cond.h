/* SPDX-License-Identifier: Apache-2.0 */
/* Condition variables whose waits end by CLOCK_MONOTONIC, as loop_now() tells it. */
#pragma once

#include <pthread.h>
#include <stdint.h>

void cond_init(pthread_cond_t *cond);

/* With the lock held. Until at_ns, or a signal, or for no reason. */
void cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t at_ns);
