/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX Runtime. Facts taken from the CPU wheels of 1.23.2, 1.27.0, 1.31.1 and 1.32.0 for
 * Python 3.11 (x86-64), whose libraries have no symbols: slots of virtual tables by breakpoints at
 * all of them during a run, the location of a kernel's name from a live process.
 *
 * Entries only: exceptions cross these frames. An operation ends where the thread's next one
 * begins, or the run ends; a run ends where the session notifies its CPU provider.
 */
#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "daemon/plan/model.h"
#include "lib/elf/table.h"

enum { GROUP_RUN = 1 };

/* struct OrtApi, to which OrtGetApiBase()->GetApi() leads. Its entries keep their numbers;
 * RunAsync() came with version 16 of the API. session, options of the run, ... */
static const struct table_path api = { "OrtGetApiBase", .n_steps = 1, .steps = { 0 },
				       .at_least = 261 };
#define API_RUN_ASYNC 260

/* IExecutionProvider::OnRunStart() and OnRunEnd(), which InferenceSession::RunImpl() calls on the
 * CPU provider at both ends of a run: after two slots of ~IExecutionProvider() and nine more.
 * result, this, options of the run. */
#define SLOT_RUN_START 11
#define SLOT_RUN_END 12
/* Both are called at the same height of the stack. */
#define RUN_SLACK 64
/* The destructor of OpKernel that frees its memory. */
#define SLOT_DELETE 1
/* OpKernel::Compute(): after two slots of ~OpKernel(). result, this, context. */
#define SLOT_COMPUTE 2

/* From an OpKernel to its OpKernelInfo; from there to its Node, which begins with its index in the
 * graph; name and op_type follow. */
#define KERNEL_INFO 8
#define INFO_NODE 8
#define NODE_NAME 8
#define STRING_BYTES 32

static const struct probe_row rows[] = {
	{ .class_name = "N11onnxruntime20CPUExecutionProviderE",
	  .slot = SLOT_RUN_START,
	  OPEN(RUN),
	  .slack = RUN_SLACK,
	  .action = ACTION_READ,
	  .value2 = { ARGUMENT_3 },
	  .group = GROUP_RUN,
	  .min_level = 1,
	  .event = "model_run",
	  .lost = "runs" },
	{ .class_name = "N11onnxruntime20CPUExecutionProviderE",
	  .slot = SLOT_RUN_END,
	  CLOSE(RUN),
	  .action = ACTION_ENTRY,
	  .group = GROUP_RUN,
	  .min_level = 1,
	  .lost = "ends of runs" },
	/* Its run has the caller's options, if they are not NULL. A Python module has no such
	 * table.
	 */
	{ .table = &api,
	  .entry = API_RUN_ASYNC,
	  ENQUEUE(RUN),
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_2 },
	  .min_level = 1 },
	{ .class_name = "N11onnxruntime8OpKernelE",
	  .derived = true,
	  .slot = SLOT_COMPUTE,
	  .any_release = true,
	  OPEN(OP),
	  .action = ACTION_OBJECT,
	  .value = { ARGUMENT_2 },
	  .tag = { ARGUMENT_3 },
	  .min_level = 2,
	  .lost = "ops" },
	/* A session that is loaded has its kernels where those of one that was unloaded were. */
	{ .class_name = "N11onnxruntime8OpKernelE",
	  .derived = true,
	  .slot = SLOT_DELETE,
	  .any_release = true,
	  FREE(OP),
	  .action = ACTION_OBJECT_FREE,
	  .value = { ARGUMENT_1 },
	  .min_level = 2,
	  .lost = "the unloading of models: a new op at an old one's address may get its name" },
};

/* Names of nodes are chosen by the model's author. */
static bool is_name(const char *s, uint32_t size)
{
	for (uint32_t i = 0; i < size; i++)
		if (!isprint((unsigned char)s[i]))
			return false;
	return size > 0;
}

static bool is_type(const char *s, uint32_t size)
{
	for (uint32_t i = 0; i < size; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '_' && s[i] != '.')
			return false;
	return size > 0 && isalpha((unsigned char)s[0]);
}

static const char *const files[] = { "onnxruntime_pybind11_state*.so", "libonnxruntime.so*", NULL };

/* Of each wheel: the Python module (CPython 3.11) and the library for C. */
static const struct known_build builds[] = {
	{ "0762229a85f956fd8c5a6b6719d2991bef78df60", "1.23.2" },
	{ "9bd3cf5aed1ede293e4fa8cca5bcad1b6dd6b803", "1.23.2" },
	{ "8c793ffbec524a83618b654a30d6aab144ccc9c7", "1.27.0" },
	{ "b3e9b115ab559dcae767dc1881c66e63280c538e", "1.27.0" },
	{ "d7a06811431381149792afebc6a4ddc23901e794", "1.31.1" },
	{ "9aa226819a18e9ec3a69a82fc7b4a547f31ac16f", "1.31.1" },
	{ "eaa6189d5b71bd0dc3c7c8cbbf2b50691a31c4f6", "1.32.0" },
	{ "24b020772edfb83932830b45372818cad4ec179e", "1.32.0" },
	{},
};

const struct pack pack_onnxruntime = {
	.name = "ONNX Runtime",
	.files = files,
	.builds = builds,
	.ops_end_at_next = true,
	.rows = rows,
	.n_rows = sizeof(rows) / sizeof(rows[0]),
	.names = { .form = NAME_STRING_OR_NUMBER,
		   .type_distance = STRING_BYTES,
		   .n_steps = 2,
		   .steps = { KERNEL_INFO, INFO_NODE },
		   .name_offset = NODE_NAME,
		   .is_name = is_name,
		   .is_type = is_type },
};
