/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/detacher.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

struct detach_job {
	struct attachment *attachment;
	struct detached *links;
	struct detacher *detacher;
};

static void *work(void *data)
{
	struct detach_job *job = data;

	attachment_free(job->attachment);
	detached_free(job->links);
	__atomic_sub_fetch(&job->detacher->running, 1, __ATOMIC_RELEASE);
	free(job);
	return NULL;
}

void detacher_take(struct detacher *d, struct attachment *attachment, struct detached *links)
{
	struct detach_job *job = malloc(sizeof(*job));
	pthread_t thread;

	if (!job) {
		attachment_free(attachment);
		detached_free(links);
		return;
	}
	*job = (struct detach_job){ .attachment = attachment, .links = links, .detacher = d };
	__atomic_add_fetch(&d->running, 1, __ATOMIC_RELAXED);
	if (pthread_create(&thread, NULL, work, job) == 0)
		pthread_detach(thread);
	else
		work(job);
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
