/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX Runtime. Facts taken from the CPU wheel of 1.31.1 for Python 3.11 (x86-64), whose library
 * has no symbols: slots of virtual tables by disassembly, the location of a kernel's name from a
 * live process.
 *
 * Entries only: exceptions cross these frames. An operation ends where the thread's next one
 * begins, or the run ends; a run ends where the session notifies its CPU provider.
 */
#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "daemon/plan/model.h"

enum { GROUP_RUN = 1 };

/* IExecutionProvider::OnRunStart() and OnRunEnd(), which InferenceSession::RunImpl() calls on the
 * CPU provider at both ends of a run: after two slots of ~IExecutionProvider() and nine more. */
#define SLOT_RUN_START 11
#define SLOT_RUN_END 12
/* Both are called at the same height of the stack. */
#define RUN_SLACK 64
/* OpKernel::Compute(): after two slots of ~OpKernel(). result, this, context. */
#define SLOT_COMPUTE 2

/* From an OpKernel to its OpKernelInfo; from there to its Node, where name and op_type are
 * adjacent. */
#define KERNEL_INFO 8
#define INFO_NODE 8
#define NODE_NAME 8
#define STRING_BYTES 32

static const struct probe_row rows[] = {
	{ .class_name = "N11onnxruntime20CPUExecutionProviderE",
	  .slot = SLOT_RUN_START,
	  OPEN(RUN),
	  .slack = RUN_SLACK,
	  .action = ACTION_ENTRY,
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

static const char *const files[] = { "onnxruntime_pybind11_state*.so", NULL };

const struct pack pack_onnxruntime = {
	.name = "ONNX Runtime",
	.files = files,
	.slots_release = "build-id:d7a06811431381149792afebc6a4ddc23901e794",
	.ops_end_at_next = true,
	.rows = rows,
	.n_rows = sizeof(rows) / sizeof(rows[0]),
	.names = { .form = NAME_STRING,
		   .type_distance = STRING_BYTES,
		   .n_steps = 2,
		   .steps = { KERNEL_INFO, INFO_NODE },
		   .name_offset = NODE_NAME,
		   .is_name = is_name,
		   .is_type = is_type },
};
