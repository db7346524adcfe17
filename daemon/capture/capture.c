/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/capture.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "daemon/capture/result.h"
#include "daemon/capture/run.h"
#include "lib/base/macro.h"

#define CAPTURES_MAX 32
#define TRIM_RECORDS 100000

int capture_shared_new(struct loop *loop, struct proxy *proxy, int cache, const char *hostname,
		       struct capture_shared **ret)
{
	struct capture_shared *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->loop = loop;
	s->proxy = proxy;
	s->cache = cache;
	snprintf(s->hostname, sizeof(s->hostname), "%s", hostname);
	s->recordings.max_bytes = CAPTURE_RECORDING_BYTES;
	*ret = s;
	return 0;
}

void capture_shared_set_startup(struct capture_shared *s, capture_startup_fn startup, void *data)
{
	s->startup = startup;
	s->startup_data = data;
}

struct capture_shared *capture_shared_free(struct capture_shared *s)
{
	free(s);
	return NULL;
}

unsigned capture_count(const struct capture_shared *s)
{
	return s->n_captures;
}

static void on_done(void *data)
{
	struct capture *c = data;

	c->request.done(c, c->request.data);
}

static void on_detached(void *data)
{
	struct capture *c = data;

	pthread_join(c->thread, NULL);
	pthread_mutex_destroy(&c->lock);
	live_done(&c->live);
	/* The result refers to them. */
	for (unsigned i = 0; i < c->n_prepared; i++)
		prepared_done(&c->prepared[i], c->shared->proxy);
	result_done(&c->result);
	free(c->path);
	free(c->model);
	c->shared->n_captures--;
	free(c);
}

static void *capture_thread(void *data)
{
	struct capture *c = data;
	struct session *s = NULL;
	char text[sizeof(c->result.text)] = "";
	int r;

	r = capture_run(c, &s, text, sizeof(text));
	if (r < 0 && !c->result.error)
		capture_fail(c, r, text);
	/* The memory used to make the answer is much larger than the answer. */
	if (c->result.records > TRIM_RECORDS)
		malloc_trim(0);
	/* The answer comes first: clients do not wait for the detaching. */
	capture_post(c, on_done);
	session_free(s);
	correlation_free(c->correlation);
	capture_post(c, on_detached);
	return NULL;
}

/* The strings of the filter belong to the client's message: the capture outlives it. */
static int copy_filter(struct capture *c)
{
	struct request_filter *filter = &c->request.filter;

	c->path = filter->path ? strdup(filter->path) : NULL;
	c->model = filter->model ? strdup(filter->model) : NULL;
	if ((filter->path && !c->path) || (filter->model && !c->model))
		return -ENOMEM;
	filter->path = c->path;
	filter->model = c->model;
	c->result.filter = *filter;
	return 0;
}

int capture_start(struct capture_shared *shared, const struct capture_request *request,
		  struct capture **ret)
{
	struct capture *c;
	int r;

	/* The broker limits captures, but not the planning before them. */
	if (shared->n_captures >= CAPTURES_MAX)
		return -EBUSY;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->shared = shared;
	c->request = *request;
	c->result.max_overhead = request->max_overhead;
	pthread_mutex_init(&c->lock, NULL);
	live_init(&c->live);
	c->request.n_asked = request->n_asked ?: request->n_targets;
	for (unsigned i = 0; i < request->n_targets; i++)
		c->request.targets[i] =
			memcpy(&c->targets[i], request->targets[i], sizeof(c->targets[i]));
	r = copy_filter(c);
	if (r >= 0)
		r = -pthread_create(&c->thread, NULL, capture_thread, c);
	if (r < 0) {
		free(c->path);
		free(c->model);
		free(c);
		return r;
	}
	shared->n_captures++;
	*ret = c;
	return 0;
}

bool capture_asks_for(const struct capture *c, pid_t pid)
{
	for (unsigned i = 0; i < c->request.n_targets; i++)
		if (c->targets[i].pid == pid)
			return true;
	return false;
}

bool capture_request_has_parent(const struct capture_request *request, const struct target *target)
{
	bool found = false;

	if (request->skip_ended || !pack_set_works_for_parent(target->packs))
		return false;
	for (unsigned i = 0; i < request->n_asked; i++) {
		if (request->targets[i]->pid == target->pid)
			return false;
		found |= request->targets[i]->pid == target->parent;
	}
	return found;
}

const struct capture_request *capture_get_request(const struct capture *c)
{
	return &c->request;
}

void capture_join(struct capture *c, const struct target *target)
{
	unsigned i;

	pthread_mutex_lock(&c->lock);
	/* A target that is already waiting has only mapped more files. */
	for (i = 0; i < c->n_joining && c->joining[i].pid != target->pid; i++)
		;
	if (i < RECORD_MAX_TARGETS) {
		c->joining[i] = *target;
		c->n_joining = MAX(c->n_joining, i + 1);
	} else {
		c->n_refused++;
	}
	pthread_mutex_unlock(&c->lock);
}

void capture_cancel(struct capture *c)
{
	__atomic_store_n(&c->cancelled, 1, __ATOMIC_RELAXED);
}

void capture_stop(struct capture *c)
{
	__atomic_store_n(&c->stopped, 1, __ATOMIC_RELAXED);
}

void capture_get_progress(struct capture *c, struct capture_progress *ret)
{
	uint64_t start = __atomic_load_n(&c->window_start_ns, __ATOMIC_RELAXED), now = loop_now();

	ret->elapsed_ns = start ? MIN(now - start, c->request.duration_ns) : 0;
	ret->records = __atomic_load_n(&c->records, __ATOMIC_RELAXED);
	ret->dropped = __atomic_load_n(&c->dropped, __ATOMIC_RELAXED);
	ret->requests = __atomic_load_n(&c->finished, __ATOMIC_RELAXED);
	ret->duration_ns = c->request.duration_ns;
	ret->overhead = (double)__atomic_load_n(&c->overhead_ppm, __ATOMIC_RELAXED) / 1e4;
}

bool capture_get_live(struct capture *c, pid_t pid, struct histogram *ret, uint64_t *ret_since_ns)
{
	return live_get(&c->live, pid, ret, ret_since_ns);
}

unsigned capture_get_pids(const struct capture *c, pid_t *ret, unsigned max)
{
	unsigned n = MIN(c->request.n_targets, max);

	for (unsigned i = 0; i < n; i++)
		ret[i] = c->targets[i].pid;
	return n;
}

struct capture_result *capture_get_result(struct capture *c)
{
	return &c->result;
}
