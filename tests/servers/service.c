/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/servers/service.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct service {
	struct model *const *models;
	size_t models_n;
	struct service_options options;
	struct truth *truth;
	atomic_uint decoded, run;

	/* A run needs the lock; the holder takes it when a run requests it, and reports when it has
	 * it. */
	pthread_mutex_t lock, ask_lock;
	sem_t asked, held;
	atomic_bool stop;
	bool has_holder;
	pthread_t holder;
};

static void sleep_ms(long ms)
{
	struct timespec left = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

static void semaphore_wait(sem_t *s)
{
	while (sem_wait(s) < 0 && errno == EINTR)
		;
}

static void *holder_run(void *argument)
{
	struct service *s = argument;

	pthread_setname_np(pthread_self(), "lock_holder");
	for (;;) {
		semaphore_wait(&s->asked);
		if (atomic_load(&s->stop))
			return NULL;
		pthread_mutex_lock(&s->lock);
		sem_post(&s->held);
		sleep_ms(s->options.delay_lock_ms);
		pthread_mutex_unlock(&s->lock);
	}
}

int service_new(struct model *const *models, size_t models_n, const struct service_options *options,
		struct service **ret)
{
	struct service *s = calloc(1, sizeof(*s));
	int r = 0;

	if (!s)
		return -ENOMEM;
	s->models = models;
	s->models_n = models_n;
	s->options = *options;
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->ask_lock, NULL);
	sem_init(&s->asked, 0, 0);
	sem_init(&s->held, 0, 0);
	if (options->truth)
		r = truth_new(options->truth, &s->truth);
	if (r >= 0 && options->delay_lock_ms) {
		r = -pthread_create(&s->holder, NULL, holder_run, s);
		s->has_holder = r >= 0;
	}
	if (r < 0) {
		service_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct service *service_free(struct service *s)
{
	if (!s)
		return NULL;
	if (s->has_holder) {
		atomic_store(&s->stop, true);
		sem_post(&s->asked);
		pthread_join(s->holder, NULL);
	}
	truth_free(s->truth);
	sem_destroy(&s->asked);
	sem_destroy(&s->held);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->ask_lock);
	free(s);
	return NULL;
}

struct model *service_model(const struct service *s, const char *name, size_t size)
{
	for (size_t i = 0; i < s->models_n; i++)
		if (strlen(model_name(s->models[i])) == size &&
		    !memcmp(model_name(s->models[i]), name, size))
			return s->models[i];
	return NULL;
}

size_t service_answer_pad(const struct service *s)
{
	return s->options.answer_pad;
}

static bool delay_due(atomic_uint *count)
{
	return atomic_fetch_add_explicit(count, 1, memory_order_relaxed) % SERVICE_DELAY_EVERY ==
	       SERVICE_DELAY_EVERY - 1;
}

void service_decode(struct service *s)
{
	if (s->options.delay_decode_ms && delay_due(&s->decoded))
		sleep_ms(s->options.delay_decode_ms);
}

/* Takes the lock once, as if something that the run needs were behind it. */
static void lock_pass(struct service *s)
{
	if (!s->has_holder)
		return;
	if (delay_due(&s->run)) {
		/* One asks at a time, so that held is the answer to its own question. */
		pthread_mutex_lock(&s->ask_lock);
		sem_post(&s->asked);
		semaphore_wait(&s->held);
		pthread_mutex_unlock(&s->ask_lock);
	}
	pthread_mutex_lock(&s->lock);
	pthread_mutex_unlock(&s->lock);
}

/* A thread asks the kernel for its id once. */
static uint32_t thread_id(void)
{
	static _Thread_local uint32_t id;

	if (!id)
		id = (uint32_t)gettid();
	return id;
}

int service_run(struct service *s, struct model *m, const struct tensor *input,
		struct truth_record *record, char *error, size_t error_size, struct tensor *ret)
{
	struct tensor output;

	record->thread = thread_id();
	record->model = model_name(m);
	lock_pass(s);
	record->run_start_ns = truth_now_ns();
	int r = model_run(m, input, error, error_size, &output);

	record->run_end_ns = truth_now_ns();
	if (model_thread)
		record->thread = model_thread;
	if (r < 0)
		return r;
	record->batched = model_is_batched(m) && output.dims[0];
	if (record->batched)
		memcpy(record->batch, output.values + 1, sizeof(record->batch));
	*ret = output;
	return 0;
}

void service_done(struct service *s, struct truth_record *record)
{
	record->done_ns = truth_now_ns();
	if (s->truth)
		truth_add(s->truth, record);
}
