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

/* Of each release: the library for C, and the Python module of the wheels for CPython 3.10 to 3.14,
 * with and without a lock of the interpreter (those that there are). */
static const struct known_build builds[] = {
	{ "9bd3cf5aed1ede293e4fa8cca5bcad1b6dd6b803", "1.23.2" },
	{ "0eb270fa2341efa2dbcca1fb83e427a51e50bfb7", "1.23.2" },
	{ "0762229a85f956fd8c5a6b6719d2991bef78df60", "1.23.2" },
	{ "a767894a376411f5a9355fd364812bc07b2fdb79", "1.23.2" },
	{ "d0a36b0d94a6142b0ca30ebf25787949c9eb919c", "1.23.2" },
	{ "d57b72e9a66ca1daa9340317b3cc8e0a6be23e56", "1.23.2" },
	{ "b3e9b115ab559dcae767dc1881c66e63280c538e", "1.27.0" },
	{ "8c793ffbec524a83618b654a30d6aab144ccc9c7", "1.27.0" },
	{ "1375e3ec9c292541c02ea80c700753f8b00b4fc5", "1.27.0" },
	{ "1dc61d15586e8d965093ee5d28328a49d2113307", "1.27.0" },
	{ "b66857b4a32cc6576be4ac9699a2245f61c105e3", "1.27.0" },
	{ "fb2a4204b21f25dd10ebd2f156ead1375926b381", "1.27.0" },
	{ "318d4fa5c52e07b7414e3c4a5fa2a7542efff18d", "1.27.0" },
	{ "4c64f60d7f2fbcc24bb1d2006fd6af8b82a0d5d4", "1.30.0" },
	{ "7f7188ac944a6a018df9f77d2324d99c4e301e7b", "1.30.0" },
	{ "ab7caab00ba6664a11f13d94744830c80423f8d7", "1.30.0" },
	{ "6a51349c77811cbefc83b6fec3c2456b4ad7df9c", "1.30.0" },
	{ "8668d7dca7960ecf894aa16a1c75e39450af5809", "1.30.0" },
	{ "2b377f6296ca8fab1845c8557d4b6ef654929138", "1.30.0" },
	{ "7885706f2290989b8f2999bb98a34b8678df12e7", "1.30.0" },
	{ "9aa226819a18e9ec3a69a82fc7b4a547f31ac16f", "1.31.1" },
	{ "d7a06811431381149792afebc6a4ddc23901e794", "1.31.1" },
	{ "b827b1c0a9c849aac374d7286ac162029578d809", "1.31.1" },
	{ "cc03e121a80023aba0621ba45af0e3d542707fd5", "1.31.1" },
	{ "66e55aaf79d386f621a2d9219dcb550972b1c0e0", "1.31.1" },
	{ "a684a804c10f9e823f4a37754e668d6d5a79b776", "1.31.1" },
	{ "461a4f54757c07d0b5a4358bbb7e4b65f9b7bb98", "1.31.1" },
	{ "24b020772edfb83932830b45372818cad4ec179e", "1.32.0" },
	{ "eaa6189d5b71bd0dc3c7c8cbbf2b50691a31c4f6", "1.32.0" },
	{ "c8707c66160ada817bb35d03ef722a99e0562794", "1.32.0" },
	{ "34552766107492124c0412a422f0c81e9309b3a8", "1.32.0" },
	{ "208214eb33b4be6ef7ec4aadbdef7fc2a7e91b82", "1.32.0" },
	{ "5fed0fe6a95e339687821d97a82469cc037f9352", "1.32.0" },
	{ "701ee884d7f9919cff380ce872b4117cd77e5ae9", "1.32.0" },
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
