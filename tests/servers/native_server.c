/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A native multi-threaded model server for tests: SavedModels through TensorFlow's C API, behind
 * TensorFlow Serving's REST or gRPC predict API, or run in a loop. Ops run on two inter-op threads,
 * by DirectSession, as in TensorFlow Serving.
 */
#include <argp.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/base/macro.h"
#include "tests/servers/grpc.h"
#include "tests/servers/model.h"
#include "tests/servers/reference_profiler.h"
#include "tests/servers/rest.h"
#include "tests/servers/rest_async.h"
#include "tests/servers/service.h"

#define MODELS_MAX 16
#define THREADS_MAX 256
#define ROWS_MAX 1024
#define DELAY_MS_MAX 10000
#define ANSWER_PAD_MAX (64 << 20)

struct options {
	long port;      /* of REST; -1: none */
	long grpc_port; /* -1: none */
	bool async_rest;
	const char *mark_work;
	long pin; /* CPU, -1: any */
	long answer_pad;
	struct service_options service;
	long workers;
	long profiler_port;
	long self_load;
	long rows;
	long reload;
	const char *directories[MODELS_MAX];
	size_t directories_n;
};

struct loop {
	pthread_t thread;
	struct model *model;
	const struct options *options;
	int64_t rows;
	const atomic_bool *stop;
	atomic_uint_fast64_t runs;
	bool failed;
};

struct self_load {
	atomic_bool stop;
	struct loop loops[THREADS_MAX];
	size_t loops_n;
	uint64_t reported;
	struct timespec reported_at;
};

enum {
	KEY_PROFILER_PORT = 256,
	KEY_SELF_LOAD,
	KEY_ROWS,
	KEY_RELOAD,
	KEY_GRPC_PORT,
	KEY_ASYNC_REST,
	KEY_MARK_WORK,
	KEY_TRUTH,
	KEY_DELAY_LOCK,
	KEY_DELAY_DECODE,
	KEY_ANSWER_PAD,
	KEY_PIN,
	KEY_PROFILER_MEMORY
};

/* What serves, each NULL when it was not asked for. */
struct fronts {
	struct rest *rest;
	struct rest_async *async;
	struct grpc *grpc;
};

static const struct argp_option option_list[] = {
	{ "port", 'p', "PORT", 0, "Serve on 127.0.0.1:PORT; 0 takes a free one, which is printed",
	  0 },
	{ "async-rest", KEY_ASYNC_REST, NULL, 0,
	  "One thread reads all REST requests and writes all answers", 0 },
	{ "mark-work", KEY_MARK_WORK, "LIBRARY", 0,
	  "With --async-rest: that libtfprof.so marks what threads hand one another", 0 },
	{ "grpc-port", KEY_GRPC_PORT, "PORT", 0,
	  "Serve gRPC on 127.0.0.1:PORT; 0 takes a free one, which is printed", 0 },
	{ "workers", 'w', "N", 0, "Threads that serve requests, of REST and of gRPC each (4)", 0 },
	{ "truth", KEY_TRUTH, "FILE", 0, "At the end, write there who served which request", 0 },
	{ "delay-lock", KEY_DELAY_LOCK, "MS", 0,
	  "A thread holds so long a lock that each 20th request's run needs", 0 },
	{ "delay-decode", KEY_DELAY_DECODE, "MS", 0,
	  "Each 20th request sleeps so long while it is decoded", 0 },
	{ "answer-pad", KEY_ANSWER_PAD, "BYTES", 0, "White space after each REST answer", 0 },
	{ "pin", KEY_PIN, "CPU", 0, "Run every thread on that CPU", 0 },
	{ "profiler-port", KEY_PROFILER_PORT, "PORT", 0,
	  "Start TensorFlow's in-process profiler there", 0 },
	{ "profiler-memory", KEY_PROFILER_MEMORY, NULL, 0, "Have it see allocations, too", 0 },
	{ "self-load", KEY_SELF_LOAD, "N", 0,
	  "N threads run the models in a loop (thread i runs model i modulo their number); runs per second since the "
	  "last such line are printed on SIGUSR1 and at the end",
	  0 },
	{ "reload", KEY_RELOAD, "N", 0,
	  "After every N runs a self-load thread unloads its model and loads the next one, which is its own",
	  0 },
	{ "rows", KEY_ROWS, "N", 0,
	  "Size of the open dimension of the input of a self-load run (1)", 0 },
	{ 0 },
};

static error_t option_read(int key, char *argument, struct argp_state *state)
{
	struct options *o = state->input;
	long *number = NULL, least = 1, most = 65535;
	char *end;

	switch (key) {
	case 'p':
		number = &o->port;
		least = 0;
		break;
	case KEY_GRPC_PORT:
		number = &o->grpc_port;
		least = 0;
		break;
	case KEY_ASYNC_REST:
		o->async_rest = true;
		return 0;
	case KEY_MARK_WORK:
		o->mark_work = argument;
		return 0;
	case KEY_TRUTH:
		o->service.truth = argument;
		return 0;
	case KEY_DELAY_LOCK:
		number = &o->service.delay_lock_ms;
		most = DELAY_MS_MAX;
		break;
	case KEY_DELAY_DECODE:
		number = &o->service.delay_decode_ms;
		most = DELAY_MS_MAX;
		break;
	case KEY_ANSWER_PAD:
		number = &o->answer_pad;
		most = ANSWER_PAD_MAX;
		break;
	case KEY_PIN:
		number = &o->pin;
		least = 0;
		most = CPU_SETSIZE - 1;
		break;
	case KEY_PROFILER_PORT:
		number = &o->profiler_port;
		break;
	case KEY_PROFILER_MEMORY:
		reference_profiler_see_allocations();
		return 0;
	case 'w':
		number = &o->workers;
		most = THREADS_MAX;
		break;
	case KEY_SELF_LOAD:
		number = &o->self_load;
		most = THREADS_MAX;
		break;
	case KEY_RELOAD:
		number = &o->reload;
		break;
	case KEY_ROWS:
		number = &o->rows;
		most = ROWS_MAX;
		break;
	case ARGP_KEY_ARG:
		if (o->directories_n == MODELS_MAX)
			argp_error(state, "more than %d models", MODELS_MAX);
		o->directories[o->directories_n++] = argument;
		return 0;
	case ARGP_KEY_END:
		if (!o->directories_n)
			argp_error(state, "no model named");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	*number = strtol(argument, &end, 10);
	if (!*argument || *end || *number < least || *number > most)
		argp_error(state, "'%s' is not a number from %ld to %ld", argument, least, most);
	return 0;
}

static const struct argp argp = {
	.options = option_list,
	.parser = option_read,
	.args_doc = "MODEL-DIRECTORY...",
	.doc = "Serves SavedModels (MODEL-DIRECTORY/VERSION/saved_model.pb) until SIGTERM or SIGINT.",
};

/* Runs the model so many times (0: without end); false when it fails, or it is time to stop. */
static bool loop_model(struct loop *l, struct model *model, long count)
{
	struct tensor input = { 0 }, output;
	_cleanup_free_ float *values = NULL;
	char error[512];

	input.dims_n = model_input_shape(model, l->rows, input.dims);
	values = calloc((size_t)(input.dims[0] * (input.dims_n == 2 ? input.dims[1] : 1)),
			sizeof(*values));
	input.values = values;
	for (long i = 0; values && (!count || i < count); i++) {
		if (atomic_load_explicit(l->stop, memory_order_relaxed))
			return false;
		if (model_run(model, &input, error, sizeof(error), &output) < 0) {
			fprintf(stderr, "native_server: %s: %s\n", model_name(model), error);
			l->failed = true;
			return false;
		}
		free(output.values);
		atomic_fetch_add_explicit(&l->runs, 1, memory_order_relaxed);
	}
	return values;
}

/* Loads, runs and unloads the models in turn. */
static void loop_reload(struct loop *l)
{
	const struct options *o = l->options;
	struct model *model = NULL;
	bool more = true;
	char error[512];

	for (size_t i = 0; more; i++) {
		if (model_load(o->directories[i % o->directories_n], error, sizeof(error), &model) <
		    0) {
			fprintf(stderr, "native_server: %s\n", error);
			l->failed = true;
			return;
		}
		more = loop_model(l, model, o->reload);
		model = model_free(model);
	}
}

static void *loop_run(void *argument)
{
	struct loop *l = argument;

	pthread_setname_np(pthread_self(), "self_load");
	if (l->options->reload)
		loop_reload(l);
	else
		loop_model(l, l->model, 0);
	return NULL;
}

static int self_load_start(struct self_load *s, const struct options *o,
			   struct model *const *models, size_t models_n)
{
	clock_gettime(CLOCK_MONOTONIC, &s->reported_at);
	while (s->loops_n < (size_t)o->self_load) {
		struct loop *l = &s->loops[s->loops_n];

		l->model = models[s->loops_n % models_n];
		l->rows = o->rows;
		l->options = o;
		l->stop = &s->stop;
		int r = -pthread_create(&l->thread, NULL, loop_run, l);

		if (r < 0)
			return r;
		s->loops_n++;
	}
	return 0;
}

static void self_load_report(struct self_load *s)
{
	struct timespec now;
	uint64_t runs = 0;

	if (!s->loops_n)
		return;
	for (size_t i = 0; i < s->loops_n; i++)
		runs += atomic_load_explicit(&s->loops[i].runs, memory_order_relaxed);
	clock_gettime(CLOCK_MONOTONIC, &now);
	double seconds = (double)(now.tv_sec - s->reported_at.tv_sec) +
			 (double)(now.tv_nsec - s->reported_at.tv_nsec) / 1e9;

	printf("self-load: %llu runs in %.3f s, %.1f runs/s\n",
	       (unsigned long long)(runs - s->reported), seconds,
	       (double)(runs - s->reported) / seconds);
	fflush(stdout);
	s->reported = runs;
	s->reported_at = now;
}

/* Returns false when a loop had failed. */
static bool self_load_stop(struct self_load *s)
{
	bool good = true;

	atomic_store(&s->stop, true);
	for (size_t i = 0; i < s->loops_n; i++) {
		pthread_join(s->loops[i].thread, NULL);
		good = good && !s->loops[i].failed;
	}
	return good;
}

static void *find_mark(void *library, const char *name)
{
	return library ? dlsym(library, name) : NULL;
}

static int async_start(const struct options *o, struct service *service, uint16_t port,
		       struct rest_async **ret)
{
	static struct work_marks marks;
	void *library = o->mark_work ? dlopen(o->mark_work, RTLD_NOW) : NULL;

	*(void **)&marks.made = find_mark(library, "tfprof_make_work");
	*(void **)&marks.begin = find_mark(library, "tfprof_begin_work");
	*(void **)&marks.end = find_mark(library, "tfprof_end_work");
	if (o->mark_work && !(marks.made && marks.begin && marks.end))
		return -ENOENT;
	return rest_async_new(service, port, (size_t)o->workers, o->mark_work ? &marks : NULL, ret);
}

static int fronts_start(struct fronts *f, const struct options *o, struct service *service)
{
	size_t workers = (size_t)o->workers;
	int r = 0;

	if (o->port >= 0) {
		uint16_t port = (uint16_t)o->port;

		r = o->async_rest ? async_start(o, service, port, &f->async)
				  : rest_new(service, port, workers, &f->rest);
		if (r < 0) {
			fprintf(stderr, "native_server: cannot serve on 127.0.0.1:%ld: %s\n",
				o->port, strerror(-r));
			return r;
		}
		printf("listening on %u\n",
		       f->async ? rest_async_port(f->async) : rest_port(f->rest));
	}
	if (o->grpc_port >= 0) {
		r = grpc_new(service, (uint16_t)o->grpc_port, workers, &f->grpc);
		if (r < 0) {
			fprintf(stderr, "native_server: cannot serve on 127.0.0.1:%ld: %s\n",
				o->grpc_port, strerror(-r));
			return r;
		}
		printf("grpc on %u\n", grpc_port(f->grpc));
	}
	return 0;
}

static void fronts_stop(struct fronts *f)
{
	uint64_t served = (f->rest ? rest_requests(f->rest) : 0) +
			  (f->async ? rest_async_requests(f->async) : 0) +
			  (f->grpc ? grpc_requests(f->grpc) : 0);

	if (f->rest || f->async || f->grpc)
		printf("served %llu requests\n", (unsigned long long)served);
	f->rest = rest_free(f->rest);
	f->async = rest_async_free(f->async);
	f->grpc = grpc_free(f->grpc);
}

/* Serves until a signal ends it. */
static int serve(const struct options *o, struct service *service, struct model *const *models,
		 const sigset_t *signals)
{
	static struct self_load load;
	struct fronts fronts = { NULL };
	int number, r;

	r = fronts_start(&fronts, o, service);
	if (r < 0) {
		fronts_stop(&fronts);
		return r;
	}
	r = self_load_start(&load, o, models, o->directories_n);
	if (r < 0)
		fprintf(stderr, "native_server: cannot start a thread: %s\n", strerror(-r));
	puts("ready");
	fflush(stdout);
	while (r >= 0 && !sigwait(signals, &number) && number == SIGUSR1)
		self_load_report(&load);
	self_load_report(&load);
	if (!self_load_stop(&load))
		r = -EIO;
	fronts_stop(&fronts);
	return r;
}

/* Threads that are started after this run on that CPU, too. */
static int cpu_pin(long cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0) {
		fprintf(stderr, "native_server: cannot run on CPU %ld: %m\n", cpu);
		return -errno;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct options o = { .port = -1, .grpc_port = -1, .pin = -1, .workers = 4, .rows = 1 };
	struct model *models[MODELS_MAX] = { NULL };
	struct service *service = NULL;
	char error[1024];
	sigset_t signals;
	int r = 0;

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	/* Before TensorFlow starts threads, so that they inherit it and only the main thread takes
	 * signals. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);

	if (o.pin >= 0)
		r = cpu_pin(o.pin);
	for (size_t i = 0; i < o.directories_n && r >= 0; i++) {
		r = model_load(o.directories[i], error, sizeof(error), &models[i]);
		if (r < 0)
			fprintf(stderr, "native_server: %s\n", error);
	}
	o.service.answer_pad = (size_t)o.answer_pad;
	if (r >= 0) {
		r = service_new(models, o.directories_n, &o.service, &service);
		if (r < 0)
			fprintf(stderr, "native_server: cannot start: %s\n", strerror(-r));
	}
	if (r >= 0) {
		if (o.profiler_port)
			reference_profiler_start((int)o.profiler_port);
		r = serve(&o, service, models, &signals);
		reference_profiler_stop();
	}
	service_free(service);
	for (size_t i = 0; i < o.directories_n; i++)
		model_free(models[i]);
	return r < 0 ? 1 : 0;
}
