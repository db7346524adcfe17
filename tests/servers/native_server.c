/*
 * A native multi-threaded model server for tests: SavedModels through TensorFlow's C API, behind TensorFlow Serving's
 * REST predict API or run in a loop. Ops run on two inter-op threads, by DirectSession, as in TensorFlow Serving.
 */
#include <argp.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/base/macro.h"
#include "tests/servers/model.h"
#include "tests/servers/reference_profiler.h"
#include "tests/servers/rest.h"

#define MODELS_MAX 16
#define THREADS_MAX 256
#define ROWS_MAX 1024

struct options {
	long port; /* -1: no HTTP */
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

enum { KEY_PROFILER_PORT = 256, KEY_SELF_LOAD, KEY_ROWS, KEY_RELOAD };

static const struct argp_option option_list[] = {
	{ "port", 'p', "PORT", 0, "Serve on 127.0.0.1:PORT; 0 takes a free one, which is printed", 0 },
	{ "workers", 'w', "N", 0, "Threads that serve HTTP (4)", 0 },
	{ "profiler-port", KEY_PROFILER_PORT, "PORT", 0, "Start TensorFlow's in-process profiler there", 0 },
	{ "self-load", KEY_SELF_LOAD, "N", 0,
	  "N threads run the models in a loop (thread i runs model i modulo their number); runs per second since the "
	  "last such line are printed on SIGUSR1 and at the end", 0 },
	{ "reload", KEY_RELOAD, "N", 0,
	  "After every N runs a self-load thread unloads its model and loads the next one, which is its own", 0 },
	{ "rows", KEY_ROWS, "N", 0, "Size of the open dimension of the input of a self-load run (1)", 0 },
	{ 0 },
};

static error_t option_read(int key, char *argument, struct argp_state *state)
{
	struct options *o = state->input;
	long *number = NULL, most = 65535;
	char *end;

	switch (key) {
	case 'p':
		number = &o->port;
		break;
	case KEY_PROFILER_PORT:
		number = &o->profiler_port;
		break;
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
	if (!*argument || *end || *number < (key == 'p' ? 0 : 1) || *number > most)
		argp_error(state, "'%s' is not a number up to %ld", argument, most);
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
	values = calloc((size_t)(input.dims[0] * (input.dims_n == 2 ? input.dims[1] : 1)), sizeof(*values));
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
		if (model_load(o->directories[i % o->directories_n], error, sizeof(error), &model) < 0) {
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

static int self_load_start(struct self_load *s, const struct options *o, struct model *const *models, size_t models_n)
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

	printf("self-load: %llu runs in %.3f s, %.1f runs/s\n", (unsigned long long)(runs - s->reported), seconds,
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

/* Serves until a signal says to end. */
static int serve(const struct options *o, struct model *const *models, size_t models_n, const sigset_t *signals)
{
	static struct self_load load;
	struct rest *rest = NULL;
	int number, r = 0;

	if (o->port >= 0) {
		r = rest_new(models, models_n, (uint16_t)o->port, (size_t)o->workers, &rest);
		if (r < 0) {
			fprintf(stderr, "native_server: cannot serve on 127.0.0.1:%ld: %s\n", o->port, strerror(-r));
			return r;
		}
		printf("listening on %u\n", rest_port(rest));
	}
	r = self_load_start(&load, o, models, models_n);
	if (r < 0)
		fprintf(stderr, "native_server: cannot start a thread: %s\n", strerror(-r));
	puts("ready");
	fflush(stdout);
	while (r >= 0 && !sigwait(signals, &number) && number == SIGUSR1)
		self_load_report(&load);
	self_load_report(&load);
	if (!self_load_stop(&load))
		r = -EIO;
	if (rest)
		printf("served %llu requests\n", (unsigned long long)rest_requests(rest));
	rest_free(rest);
	return r;
}

int main(int argc, char **argv)
{
	struct options o = { .port = -1, .workers = 4, .rows = 1 };
	struct model *models[MODELS_MAX] = { NULL };
	char error[1024];
	sigset_t signals;
	int r = 0;

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	/* Before TensorFlow starts threads, so that they inherit it and only the main thread takes signals. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);

	for (size_t i = 0; i < o.directories_n && r >= 0; i++) {
		r = model_load(o.directories[i], error, sizeof(error), &models[i]);
		if (r < 0)
			fprintf(stderr, "native_server: %s\n", error);
	}
	if (r >= 0) {
		if (o.profiler_port)
			reference_profiler_start((int)o.profiler_port);
		r = serve(&o, models, o.directories_n, &signals);
		reference_profiler_stop();
	}
	for (size_t i = 0; i < o.directories_n; i++)
		model_free(models[i]);
	return r < 0 ? 1 : 0;
}
