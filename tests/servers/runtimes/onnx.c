/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's models, in ONNX Runtime instead of TensorFlow: …/NAME/VERSION/model.onnx, with one
 * input x and one output y of [N] floats. ONNX_LIBRARY is the runtime's library; ONNX_RUN=run,
 * binding, async or async-options chooses which function of its API runs the models.
 */
#include "tests/servers/model.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/macro.h"
#include "tests/servers/runtimes/onnx_api.h"

#define VERSION "1"
/* With one, the runtime has no pool for asynchronous runs. */
#define INTRA_OP_THREADS 2

struct model {
	char *name;
	void *session;
};

_Thread_local uint32_t model_thread;

static const char *const inputs[] = { "x" }, *const outputs[] = { "y" };
static const void *const *ort_api;
static void *env, *memory;

static int check(ort_status status, char *error, size_t error_size)
{
	if (!status)
		return 0;
	snprintf(error, error_size, "%s", ort_message(status));
	ort_release_status(status);
	return -EINVAL;
}

static int runtime_open(char *error, size_t error_size)
{
	const char *path = getenv("ONNX_LIBRARY");
	void *library = path ? dlopen(path, RTLD_NOW) : NULL;
	ort_get_api_base base = library ? (ort_get_api_base)dlsym(library, "OrtGetApiBase") : NULL;
	int r;

	if (ort_api)
		return 0;
	if (base)
		ort_api = base()->get_api(ORT_API_VERSION);
	if (!ort_api) {
		snprintf(error, error_size, "%s: %s", path ?: "ONNX_LIBRARY", dlerror());
		return -EINVAL;
	}
	r = check(ort_create_env(ORT_WARNINGS, "server", &env), error, error_size);
	if (r >= 0)
		r = check(ort_create_memory_info(ORT_ARENA_ALLOCATOR, ORT_MEMORY_DEFAULT, &memory),
			  error, error_size);
	return r;
}

int model_load(const char *directory, char *error, size_t error_size, struct model **ret)
{
	const char *slash = strrchr(directory, '/');
	struct model *m = calloc(1, sizeof(*m));
	_cleanup_free_ char *path = NULL;
	void *options = NULL;
	int r = -ENOMEM;

	snprintf(error, error_size, "out of memory");
	if (m && asprintf(&path, "%s/" VERSION "/model.onnx", directory) >= 0)
		m->name = strdup(slash ? slash + 1 : directory);
	if (m && m->name)
		r = runtime_open(error, error_size);
	if (r >= 0)
		r = check(ort_create_options(&options), error, error_size);
	if (r >= 0)
		r = check(ort_set_intra_op_threads(options, INTRA_OP_THREADS), error, error_size);
	if (r >= 0)
		r = check(ort_create_session(env, path, options, &m->session), error, error_size);
	if (options)
		ort_release_options(options);
	if (r < 0) {
		model_free(m);
		return r;
	}
	*ret = m;
	return 0;
}

struct model *model_free(struct model *m)
{
	if (!m)
		return NULL;
	if (m->session)
		ort_release_session(m->session);
	free(m->name);
	free(m);
	return NULL;
}

const char *model_name(const struct model *m)
{
	return m->name;
}

const char *model_version(const struct model *m)
{
	(void)m;
	return VERSION;
}

bool model_is_batched(const struct model *m)
{
	(void)m;
	return false;
}

int model_input_shape(const struct model *m, int64_t rows, int64_t dims[2])
{
	(void)m;
	dims[0] = rows;
	return 1;
}

struct waiting {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done;
	uint32_t thread;
	ort_status status;
};

static void on_done(void *data, void **values, size_t n_values, ort_status status)
{
	struct waiting *w = data;

	(void)values;
	(void)n_values;
	pthread_mutex_lock(&w->lock);
	w->status = status;
	w->thread = (uint32_t)gettid();
	w->done = true;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static ort_status run_async(struct model *m, const void *options, const void *const *values,
			    void **ret)
{
	struct waiting w = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0, NULL };
	ort_status status =
		ort_run_async(m->session, options, inputs, values, 1, outputs, 1, ret, on_done, &w);

	if (status)
		return status;
	pthread_mutex_lock(&w.lock);
	while (!w.done)
		pthread_cond_wait(&w.changed, &w.lock);
	pthread_mutex_unlock(&w.lock);
	model_thread = w.thread;
	return w.status;
}

static ort_status run_async_with_options(struct model *m, const void *const *values, void **ret)
{
	void *options = NULL;
	ort_status status = ort_create_run_options(&options);

	if (!status)
		status = run_async(m, options, values, ret);
	if (options)
		ort_release_run_options(options);
	return status;
}

static ort_status run_bound(struct model *m, const void *input, const void *output)
{
	void *binding = NULL;
	ort_status status = ort_create_binding(m->session, &binding);

	if (!status)
		status = ort_bind_input(binding, inputs[0], input);
	if (!status)
		status = ort_bind_output(binding, outputs[0], output);
	if (!status)
		status = ort_run_with_binding(m->session, NULL, binding);
	if (binding)
		ort_release_binding(binding);
	return status;
}

static ort_status run(struct model *m, const void *input, void **output)
{
	const char *way = getenv("ONNX_RUN") ?: "run";

	if (!strcmp(way, "binding"))
		return run_bound(m, input, *output);
	if (!strcmp(way, "async"))
		return run_async(m, NULL, &input, output);
	if (!strcmp(way, "async-options"))
		return run_async_with_options(m, &input, output);
	return ort_run(m->session, NULL, inputs, &input, 1, outputs, 1, output);
}

int model_run(struct model *m, const struct tensor *input, char *error, size_t error_size,
	      struct tensor *ret)
{
	size_t size = (size_t)input->dims[0] * sizeof(float);
	void *from = NULL, *to = NULL;
	float *values;
	int r;

	if (input->dims_n != 1) {
		snprintf(error, error_size, "%s takes a list of numbers", m->name);
		return -EINVAL;
	}
	values = malloc(MAX(size, sizeof(float)));
	if (!values) {
		snprintf(error, error_size, "out of memory");
		return -ENOMEM;
	}
	r = check(ort_create_tensor(memory, input->values, size, input->dims, 1, ORT_FLOAT, &from),
		  error, error_size);
	if (r >= 0)
		r = check(ort_create_tensor(memory, values, size, input->dims, 1, ORT_FLOAT, &to),
			  error, error_size);
	if (r >= 0)
		r = check(run(m, from, &to), error, error_size);
	if (from)
		ort_release_value(from);
	if (to)
		ort_release_value(to);
	if (r < 0) {
		free(values);
		return r;
	}
	*ret = (struct tensor){ .dims_n = 1, .dims = { input->dims[0] }, .values = values };
	return 0;
}
