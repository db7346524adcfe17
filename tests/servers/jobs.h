/* SPDX-License-Identifier: Apache-2.0 */
/* A queue from which threads take work. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

/* Part of what is queued. */
struct job {
	struct job *next;
};

struct jobs {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct job *first, **last;
	bool stopped;
};

void jobs_init(struct jobs *q);
/* No thread may wait any more, and nothing may be queued. */
void jobs_destroy(struct jobs *q);

void jobs_put(struct jobs *q, struct job *j);
/* Waits for the next one; NULL once it is stopped and empty. */
struct job *jobs_take(struct jobs *q);
/* Takes all there are, as a list, without waiting. */
struct job *jobs_take_all(struct jobs *q);
void jobs_stop(struct jobs *q);
