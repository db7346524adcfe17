/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenVINO on CPUs. Facts taken from the wheels 2026.0.0, 2026.2.1, 2026.4.0 and 2026.4.1 for
 * Python 3.11 (x86-64). libopenvino.so exports the functions used here. The CPU plugin has no
 * symbols: slots were found with breakpoints at all virtual functions during inference, offsets of
 * members in a live process.
 *
 * InferRequest::infer() runs a model with one stream on the caller's thread. With several streams,
 * IAsyncInferRequest::infer() hands the run to a stream's thread; start_async() always does. On
 * either thread, SyncInferRequest::infer() of the plugin calls convert_batched_tensors(), then
 * execute() or executeDynamicImpl() of each node. After a run, a stream's thread calls
 * std::promise::set_value(); after start_async() it calls CPUStreamsExecutor::run() for the
 * callback.
 *
 * Entries only: exceptions cross these frames. An operation ends where the thread's next one
 * begins, or the run ends.
 */
#include <ctype.h>
#include <stddef.h>

#include "daemon/plan/model.h"

enum { GROUP_INFER = 1 };

/* More than the frames between the beginning and InferRequest::infer(), 1,856 bytes; the other ends
 * are not above that. */
#define RUN_SLACK 4096
/* SyncInferRequest: the IAsyncInferRequest that it is of. */
#define SYNC_REQUEST 432

/* Node: the destructor that frees its memory, execute(), and executeDynamicImpl(), for nodes with
 * dynamic shapes, which calls execute() or has a copy of it. */
#define SLOT_DELETE 1
#define SLOT_EXECUTE 42
#define SLOT_EXECUTE_DYNAMIC 43
/* Node: its name, and its type, two std::string. */
#define NODE_NAME 616
#define STRING_BYTES 32

#define NODE_CLASS "N2ov9intel_cpu4NodeE"
/* What std::call_once() calls for std::promise::set_value(). */
#define PROMISE_SET                                                                                \
	"_ZZNSt9once_flag18_Prepare_executionC4IZSt9call_onceIMNSt13__future_base13_State_"        \
	"baseV2EFvPSt8function*"

static const char *const known_releases[] = { "2026.", NULL };

static const struct probe_row rows[] = {
	{ .symbol = "_ZN2ov17ISyncInferRequest23convert_batched_tensorsEv",
	  OPEN(RUN),
	  .slack = RUN_SLACK,
	  .action = ACTION_READ,
	  .value2 = { ARGUMENT_1, 1, SYNC_REQUEST },
	  .group = GROUP_INFER,
	  .min_level = 1,
	  .event = "InferRequest::infer",
	  .lost = "runs" },
	{ .symbol = "_ZN2ov9threading18CPUStreamsExecutor3runESt8functionIFvvEE",
	  CLOSE(RUN),
	  .slack = RUN_SLACK,
	  .action = ACTION_ENTRY,
	  .group = GROUP_INFER,
	  .min_level = 1,
	  .lost = "ends of runs that start_async() starts" },
	{ .symbol = PROMISE_SET,
	  CLOSE(RUN),
	  .slack = RUN_SLACK,
	  .action = ACTION_ENTRY,
	  .group = GROUP_INFER,
	  .min_level = 1,
	  .lost = "ends of runs on streams' threads" },
	/* In another release, its first call may be another one. */
	{ .symbol = "_ZN2ov12InferRequest5inferEv",
	  .first_call = true,
	  .releases = known_releases,
	  CLOSE(RUN),
	  .slack = RUN_SLACK,
	  .action = ACTION_ENTRY,
	  .group = GROUP_INFER,
	  .min_level = 1,
	  .lost = "ends of runs on the thread that calls infer()" },
	{ .symbol = "_ZN2ov18IAsyncInferRequest11start_asyncEv",
	  ENQUEUE(RUN),
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_1 },
	  .min_level = 1,
	  .lost = "the requests of runs that start_async() starts" },
	{ .symbol = "_ZN2ov18IAsyncInferRequest5inferEv",
	  ENQUEUE(RUN),
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_1 },
	  .min_level = 1,
	  .lost = "the requests of runs that infer() hands to a stream's thread" },
	{ .class_name = NODE_CLASS,
	  .derived = true,
	  .slot = SLOT_EXECUTE,
	  OPEN(OP),
	  .goes_on = true,
	  .action = ACTION_OBJECT,
	  .value = { ARGUMENT_1 },
	  .tag = { ARGUMENT_1 },
	  .min_level = 2,
	  .lost = "ops" },
	{ .class_name = NODE_CLASS,
	  .derived = true,
	  .slot = SLOT_EXECUTE_DYNAMIC,
	  OPEN(OP),
	  .action = ACTION_OBJECT,
	  .value = { ARGUMENT_1 },
	  .tag = { ARGUMENT_1 },
	  .min_level = 2,
	  .lost = "ops" },
	/* A model that is compiled has its nodes where those of an unloaded one were. */
	{ .class_name = NODE_CLASS,
	  .derived = true,
	  .slot = SLOT_DELETE,
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
		if (!isalnum((unsigned char)s[i]) && s[i] != '_')
			return false;
	return size > 0 && isalpha((unsigned char)s[0]);
}

static const char *const files[] = { "libopenvino.so*", "libopenvino_intel_cpu_plugin.so", NULL };

/* Of each wheel: the library and the plugin. */
static const struct known_build builds[] = {
	{ "81114c07250393b0e1beef8029b05135dde396ca", "2026.0.0" },
	{ "5544cb5e1e715cf1f6aa87a04435297f06cd72f4", "2026.0.0" },
	{ "d53bee6d3a65b7ec8e62bc09539adce5208f63f6", "2026.2.1" },
	{ "b71ed0e09398c96ee59ebbc1c2d8467de09a9d92", "2026.2.1" },
	{ "224d4a4da3de46b7290b42e0c23782e588124dae", "2026.4.0" },
	{ "bacff961fd28a7ac4760dbd3f440feee0049f3b3", "2026.4.0" },
	{ "1be8d853cd24ce4ab7b444b903a19e5673fd44dc", "2026.4.1" },
	{ "41df6c862e5858d730c79104be218d407ead3697", "2026.4.1" },
	{},
};

const struct pack pack_openvino = {
	.name = "OpenVINO",
	.files = files,
	.builds = builds,
	.ops_end_at_next = true,
	.ops_outside_runs = true,
	.rows = rows,
	.n_rows = sizeof(rows) / sizeof(rows[0]),
	.names = { .form = NAME_STRING,
		   .type_distance = STRING_BYTES,
		   .name_offset = NODE_NAME,
		   .is_name = is_name,
		   .is_type = is_type },
};
