/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/servers/model.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <tensorflow/c/c_api.h>

#include "lib/base/macro.h"
#include "tests/servers/wire.h"

/*
 * ConfigProto: intra_op_parallelism_threads (2) = 1, inter_op_parallelism_threads (5) = 2. The
 * first session makes the pool that all sessions of the process share, so every model's ops run on
 * the same two threads.
 */
static const uint8_t session_config[] = { 0x10, 1, 0x28, 2 };

struct endpoint {
	char *name;
	uint64_t type;
	int dims_n;      /* -1: not known */
	int64_t dims[2]; /* -1: open */
};

_Thread_local uint32_t model_thread;

struct model {
	char *name;
	char *version;
	TF_Graph *graph;
	TF_Session *session;
	struct endpoint input, output;
	TF_Output input_at, output_at;
};

/* TensorShapeProto: dim (2) { size (1) }, unknown_rank (3). */
static void shape_read(struct wire shape, struct endpoint *e)
{
	struct wire_field f, d;

	e->dims_n = 0;
	while (wire_next(&shape, &f)) {
		if (f.number == 3 && f.value) {
			e->dims_n = -1;
			return;
		}
		if (f.number != 2)
			continue;
		if (e->dims_n == (int)ARRAY_SIZE(e->dims)) {
			e->dims_n = -1;
			return;
		}
		int64_t size = 0;

		while (wire_next(&f.bytes, &d))
			if (d.number == 1)
				size = (int64_t)d.value;
		e->dims[e->dims_n++] = size;
	}
}

/* An entry of map<string, TensorInfo>; TensorInfo: name (1), dtype (2), tensor_shape (3). */
static int endpoint_read(struct wire entry, struct endpoint *e)
{
	struct wire_field f, t;

	if (e->name)
		return -EINVAL;
	e->dims_n = -1;
	while (wire_next(&entry, &f)) {
		if (f.number != 2)
			continue;
		while (wire_next(&f.bytes, &t)) {
			if (t.number == 1 && !e->name)
				e->name = strndup((const char *)t.bytes.at,
						  (size_t)(t.bytes.end - t.bytes.at));
			else if (t.number == 2)
				e->type = t.value;
			else if (t.number == 3)
				shape_read(t.bytes, e);
		}
	}
	if (!e->name || e->type != TF_FLOAT || (e->dims_n != 1 && e->dims_n != 2))
		return -EINVAL;
	return 0;
}

/* MetaGraphDef: signature_def (5), a map<string, SignatureDef>; SignatureDef: inputs (1), outputs
 * (2). */
static int signature_read(struct wire meta_graph, struct model *m)
{
	struct wire_field f, e;

	while (wire_next(&meta_graph, &f)) {
		struct wire signature = { 0 };
		bool wanted = false;

		if (f.number != 5)
			continue;
		while (wire_next(&f.bytes, &e)) {
			if (e.number == 1)
				wanted = wire_equal(e.bytes, "serving_default");
			else if (e.number == 2)
				signature = e.bytes;
		}
		if (!wanted)
			continue;
		while (wire_next(&signature, &e)) {
			int r = e.number == 1   ? endpoint_read(e.bytes, &m->input)
				: e.number == 2 ? endpoint_read(e.bytes, &m->output)
						: 0;

			if (r < 0)
				return r;
		}
		return m->input.name && m->output.name ? 0 : -EINVAL;
	}
	return -EINVAL;
}

/* Finds "operation:index" in the graph. */
static int endpoint_find(const struct model *m, const struct endpoint *e, TF_Output *ret)
{
	_cleanup_free_ char *operation = strdup(e->name);
	char *colon;
	int index = 0;

	if (!operation)
		return -ENOMEM;
	colon = strrchr(operation, ':');
	if (colon) {
		*colon = 0;
		index = atoi(colon + 1);
	}
	TF_Operation *found = TF_GraphOperationByName(m->graph, operation);

	if (!found || index < 0 || index >= TF_OperationNumOutputs(found))
		return -EINVAL;
	*ret = (TF_Output){ .oper = found, .index = index };
	return 0;
}

static int version_find(const char *directory, char **ret)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	long best = -1;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		char *end;
		long version = strtol(entry->d_name, &end, 10);

		if (isdigit((unsigned char)entry->d_name[0]) && !*end && version > best)
			best = version;
	}
	closedir(dir);
	if (best < 0)
		return -ENOENT;
	return asprintf(ret, "%ld", best) < 0 ? -ENOMEM : 0;
}

static int session_load(struct model *m, const char *path, char *error, size_t error_size)
{
	TF_Status *status = TF_NewStatus();
	TF_SessionOptions *options = TF_NewSessionOptions();
	TF_Buffer *meta_graph = TF_NewBuffer();
	const char *tags[] = { "serve" };
	int r;

	m->graph = TF_NewGraph();
	TF_SetConfig(options, session_config, sizeof(session_config), status);
	m->session = TF_LoadSessionFromSavedModel(options, NULL, path, tags, 1, m->graph,
						  meta_graph, status);
	if (TF_GetCode(status) != TF_OK) {
		m->session = NULL;
		snprintf(error, error_size, "%s: %s", path, TF_Message(status));
		r = -EINVAL;
	} else {
		const uint8_t *bytes = meta_graph->data;

		r = signature_read((struct wire){ bytes, bytes + meta_graph->length }, m);
		if (r >= 0)
			r = endpoint_find(m, &m->input, &m->input_at);
		if (r >= 0)
			r = endpoint_find(m, &m->output, &m->output_at);
		if (r < 0)
			snprintf(error, error_size,
				 "%s: serving_default is not one float tensor in and one out",
				 path);
	}
	TF_DeleteBuffer(meta_graph);
	TF_DeleteSessionOptions(options);
	TF_DeleteStatus(status);
	return r;
}

int model_load(const char *directory, char *error, size_t error_size, struct model **ret)
{
	_cleanup_free_ char *path = NULL, *trimmed = strdup(directory);
	struct model *m = calloc(1, sizeof(*m));
	int r = -ENOMEM;

	if (!m || !trimmed)
		goto fail;
	for (size_t n = strlen(trimmed); n > 1 && trimmed[n - 1] == '/'; n--)
		trimmed[n - 1] = 0;
	r = version_find(trimmed, &m->version);
	if (r < 0)
		goto fail;
	const char *slash = strrchr(trimmed, '/');

	r = -ENOMEM;
	m->name = strdup(slash ? slash + 1 : trimmed);
	if (!m->name || asprintf(&path, "%s/%s", trimmed, m->version) < 0)
		goto fail;
	r = session_load(m, path, error, error_size);
	if (r < 0) {
		model_free(m);
		return r;
	}
	*ret = m;
	return 0;
fail:
	snprintf(error, error_size, "%s: %s", directory,
		 r == -ENOENT ? "no version of a model there" : strerror(-r));
	model_free(m);
	return r;
}

struct model *model_free(struct model *m)
{
	if (!m)
		return NULL;
	if (m->session) {
		TF_Status *status = TF_NewStatus();

		TF_CloseSession(m->session, status);
		TF_DeleteSession(m->session, status);
		TF_DeleteStatus(status);
	}
	if (m->graph)
		TF_DeleteGraph(m->graph);
	free(m->input.name);
	free(m->output.name);
	free(m->name);
	free(m->version);
	free(m);
	return NULL;
}

const char *model_name(const struct model *m)
{
	return m->name;
}

const char *model_version(const struct model *m)
{
	return m->version;
}

bool model_is_batched(const struct model *m)
{
	return m->input.dims_n == 1 && m->output.dims_n == 2 && m->output.dims[1] == 3;
}

int model_input_shape(const struct model *m, int64_t rows, int64_t dims[2])
{
	for (int i = 0; i < m->input.dims_n; i++)
		dims[i] = m->input.dims[i] < 0 ? rows : m->input.dims[i];
	return m->input.dims_n;
}

static int64_t values_count(const int64_t *dims, int dims_n)
{
	int64_t count = 1;

	for (int i = 0; i < dims_n; i++) {
		if (dims[i] < 0 || dims[i] > TENSOR_VALUES_MAX)
			return -1;
		count *= dims[i];
	}
	return count > TENSOR_VALUES_MAX ? -1 : count;
}

/* Copies what TensorFlow answered. */
static int tensor_copy(const TF_Tensor *from, char *error, size_t error_size, struct tensor *ret)
{
	struct tensor t = { .dims_n = TF_NumDims(from) };

	if (TF_TensorType(from) != TF_FLOAT || t.dims_n < 1 || t.dims_n > 2) {
		snprintf(error, error_size, "the answer is not [N] or [N, D] floats");
		return -EINVAL;
	}
	for (int i = 0; i < t.dims_n; i++)
		t.dims[i] = TF_Dim(from, i);
	int64_t count = values_count(t.dims, t.dims_n);

	if (count < 0) {
		snprintf(error, error_size, "the answer is too large");
		return -E2BIG;
	}
	t.values = malloc(MAX((size_t)count, (size_t)1) * sizeof(float));
	if (!t.values) {
		snprintf(error, error_size, "out of memory");
		return -ENOMEM;
	}
	memcpy(t.values, TF_TensorData(from), (size_t)count * sizeof(float));
	*ret = t;
	return 0;
}

int model_run(struct model *m, const struct tensor *input, char *error, size_t error_size,
	      struct tensor *ret)
{
	int64_t count = values_count(input->dims, input->dims_n);
	TF_Tensor *output = NULL;
	int r;

	if (input->dims_n != m->input.dims_n || count < 0) {
		snprintf(error, error_size, "%s takes a list of %s", m->name,
			 m->input.dims_n == 1 ? "numbers" : "rows of numbers");
		return -EINVAL;
	}
	TF_Tensor *tensor = TF_AllocateTensor(TF_FLOAT, input->dims, input->dims_n,
					      (size_t)count * sizeof(float));

	if (!tensor) {
		snprintf(error, error_size, "out of memory");
		return -ENOMEM;
	}
	memcpy(TF_TensorData(tensor), input->values, (size_t)count * sizeof(float));

	TF_Status *status = TF_NewStatus();

	TF_SessionRun(m->session, NULL, &m->input_at, &tensor, 1, &m->output_at, &output, 1, NULL,
		      0, NULL, status);
	if (TF_GetCode(status) != TF_OK) {
		snprintf(error, error_size, "%s", TF_Message(status));
		r = -EINVAL;
	} else {
		r = tensor_copy(output, error, error_size, ret);
	}
	if (output)
		TF_DeleteTensor(output);
	TF_DeleteTensor(tensor);
	TF_DeleteStatus(status);
	return r;
}
