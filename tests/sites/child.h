/* SPDX-License-Identifier: Apache-2.0 */
/* A process that does the same work again each time it is asked to. */
#pragma once

#include <sys/types.h>

struct child {
	pid_t pid;
	int ask, answer;
};

/* Starts it; round is called with 0, 1, … in it, and may leave its results in shared memory only.
 */
int child_start(void (*round)(unsigned number, void *data), void *data, struct child *ret);
/* Has it do its next round. Returns -EPIPE when it did not survive that. */
int child_round(struct child *child);
void child_end(struct child *child);
