/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/detacher.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include "daemon/broker/kernel/program_cache.h"

struct detach_job {
	struct attachment *attachment; /* NULL: links */
	uint64_t ready_ns;
	struct detached *links;
	struct detacher *detacher;
};

static void do_job(const struct detach_job *job)
{
	struct detacher *d = job->detacher;
	struct attachment_form form = {};

	if (job->attachment)
		form = attachment_form(job->attachment);
	attachment_free(job->attachment);
	detached_free(job->links);
	__atomic_sub_fetch(&d->running, 1, __ATOMIC_RELEASE);
	if (!job->ready_ns)
		return;
	programs_make_ready(form.cache, form.attach_type, form.kinds, job->ready_ns);
	__atomic_sub_fetch(&d->loading, 1, __ATOMIC_RELEASE);
}

static void *work(void *data)
{
	do_job(data);
	free(data);
	return NULL;
}

static void start(struct detach_job job)
{
	struct detach_job *copy = malloc(sizeof(*copy));
	pthread_t thread;

	__atomic_add_fetch(&job.detacher->running, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&job.detacher->loading, job.ready_ns > 0, __ATOMIC_RELAXED);
	if (copy) {
		*copy = job;
		if (pthread_create(&thread, NULL, work, copy) == 0) {
			pthread_detach(thread);
			return;
		}
	}
	free(copy);
	/* Nothing more than what has to be done. */
	__atomic_sub_fetch(&job.detacher->loading, job.ready_ns > 0, __ATOMIC_RELAXED);
	job.ready_ns = 0;
	do_job(&job);
}

void detacher_take(struct detacher *d, struct detached *links)
{
	start((struct detach_job){ .links = links, .detacher = d });
}

void detacher_end(struct detacher *d, struct attachment *attachment, uint64_t ready_ns)
{
	start((struct detach_job){ .attachment = attachment, .ready_ns = ready_ns, .detacher = d });
}

bool detacher_is_busy(const struct detacher *d)
{
	return __atomic_load_n(&d->running, __ATOMIC_ACQUIRE) > 0;
}

bool detacher_is_loading(const struct detacher *d)
{
	return __atomic_load_n(&d->loading, __ATOMIC_ACQUIRE) > 0;
}

void detacher_wait(const struct detacher *d)
{
	while (detacher_is_busy(d) || detacher_is_loading(d))
		poll(NULL, 0, 1);
}
