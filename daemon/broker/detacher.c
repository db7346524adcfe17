/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/detacher.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

struct detach_job {
	struct attachment *attachment; /* NULL: links */
	uint64_t ready_ns;
	struct detached *links;
	struct detacher *detacher;
};

static void do_job(const struct detach_job *job)
{
	if (job->attachment)
		attachment_end(job->attachment, job->ready_ns);
	else
		detached_free(job->links);
	__atomic_sub_fetch(&job->detacher->running, 1, __ATOMIC_RELEASE);
}

static void *work(void *data)
{
	do_job(data);
	free(data);
	return NULL;
}

static void start(const struct detach_job *job)
{
	struct detach_job *copy = malloc(sizeof(*copy));
	pthread_t thread;

	__atomic_add_fetch(&job->detacher->running, 1, __ATOMIC_RELAXED);
	if (copy) {
		*copy = *job;
		if (pthread_create(&thread, NULL, work, copy) == 0) {
			pthread_detach(thread);
			return;
		}
	}
	free(copy);
	do_job(job);
}

void detacher_take(struct detacher *d, struct detached *links)
{
	start(&(struct detach_job){ .links = links, .detacher = d });
}

void detacher_end(struct detacher *d, struct attachment *attachment, uint64_t ready_ns)
{
	start(&(struct detach_job){
		.attachment = attachment, .ready_ns = ready_ns, .detacher = d });
}

bool detacher_is_busy(const struct detacher *d)
{
	return __atomic_load_n(&d->running, __ATOMIC_ACQUIRE) > 0;
}

void detacher_wait(const struct detacher *d)
{
	while (detacher_is_busy(d))
		poll(NULL, 0, 1);
}
