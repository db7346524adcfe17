/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/servers/jobs.h"

#include <stddef.h>

void jobs_init(struct jobs *q)
{
	*q = (struct jobs){ 0 };
	q->last = &q->first;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->more, NULL);
}

void jobs_destroy(struct jobs *q)
{
	pthread_cond_destroy(&q->more);
	pthread_mutex_destroy(&q->lock);
}

void jobs_put(struct jobs *q, struct job *j)
{
	j->next = NULL;
	pthread_mutex_lock(&q->lock);
	*q->last = j;
	q->last = &j->next;
	pthread_mutex_unlock(&q->lock);
	pthread_cond_signal(&q->more);
}

struct job *jobs_take(struct jobs *q)
{
	struct job *j;

	pthread_mutex_lock(&q->lock);
	while (!q->first && !q->stopped)
		pthread_cond_wait(&q->more, &q->lock);
	j = q->first;
	if (j) {
		q->first = j->next;
		if (!q->first)
			q->last = &q->first;
	}
	pthread_mutex_unlock(&q->lock);
	return j;
}

struct job *jobs_take_all(struct jobs *q)
{
	struct job *first;

	pthread_mutex_lock(&q->lock);
	first = q->first;
	q->first = NULL;
	q->last = &q->first;
	pthread_mutex_unlock(&q->lock);
	return first;
}

void jobs_stop(struct jobs *q)
{
	pthread_mutex_lock(&q->lock);
	q->stopped = true;
	pthread_mutex_unlock(&q->lock);
	pthread_cond_broadcast(&q->more);
}
