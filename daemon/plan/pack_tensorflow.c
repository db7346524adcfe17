/*
 * TensorFlow. Facts read off the unmodified 2.21.0 CPU wheel (x86-64): the symbols of libtensorflow_framework.so.2 and
 * libtensorflow_cc.so.2, the argument registers and the offsets by disassembly. tensorflow_model_server holds the same names.
 *
 * No return probes: a C++ exception that crosses a probed frame would abort the process. What begins at one entry ends at
 * another one of the same thread:
 *   an op         Device::Compute            → ~OpKernelContext of the context that Compute was given
 *   a session run DirectSession::RunInternal → ~RunState, a local variable of RunInternal
 *   a function    KernelAndDeviceFunc::Run   → ~ScopedSetRound, a local variable around the run
 */
#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "daemon/plan/pack.h"

enum { GROUP_SESSION = 1, GROUP_FUNCTION, GROUP_MARK };

/*
 * ExecutorState copies from Executor::Args (ExecutorImpl::RunAsyncInternal): step_id at 0 to 16, call_frame at 40 to 176.
 * The call frame is an object of its own for every call that is alive.
 */
#define ARGS_STEP_ID 0
#define ARGS_CALL_FRAME 40
#define STATE_STEP_ID 16
#define STATE_CALL_FRAME 176

/* ExecutorState<PropagatorState>, <SimplePropagatorState>, <OrderedPropagatorState> */
#define EXECUTOR_STATE "_ZN10tensorflow12_GLOBAL__N_113ExecutorStateINS_*PropagatorStateEE"

/* Virtual functions of Device, counted in 2.21. */
#define SLOT_COMPUTE 23
#define SLOT_COMPUTE_ASYNC 24

#define OP_ARGUMENTS .action = ACTION_OBJECT, .value = { ARGUMENT_2 }, .tag = ARGUMENT_3, .min_level = 2
#define STATE_ARGUMENTS                                                                                          \
	.action = ACTION_READ, .value = { ARGUMENT_1, 1, STATE_STEP_ID },                             \
	.value2 = { ARGUMENT_1, 1, STATE_CALL_FRAME }, .tag = ARGUMENT_1, .min_level = 2

static const struct probe_spec probes[] = {
	{ .symbol = "_ZN10tensorflow13DirectSession11RunInternalE*", .role = ROLE_RUN_BEGIN, .action = ACTION_ENTRY,
	  /* Returns absl::Status by value: result, this, step_id. */
	  .value = { ARGUMENT_3 }, .group = GROUP_SESSION, .min_level = 1, .event = "SessionRun", .lost = "session runs" },
	{ .symbol = "_ZN10tensorflow13DirectSession8RunStateD2Ev", .role = ROLE_RUN_END, .action = ACTION_ENTRY,
	  .group = GROUP_SESSION, .min_level = 1, .lost = "ends of session runs" },
	{ .symbol = "_ZN10tensorflow19KernelAndDeviceFunc3RunE*", .role = ROLE_RUN_BEGIN, .action = ACTION_ENTRY,
	  .group = GROUP_FUNCTION, .min_level = 1, .event = "FunctionRun", .lost = "function runs",
	  .class_name = "N10tensorflow19KernelAndDeviceFuncE", .slot = 6 },
	{ .symbol = "_ZN3tsl4port14ScopedSetRoundD2Ev", .role = ROLE_RUN_END, .action = ACTION_ENTRY,
	  .group = GROUP_FUNCTION, .min_level = 1, .lost = "ends of function runs" },

	/* What a server says itself: which request (a number of 64 bits) its thread works for, from here until there. */
	{ .usdt = "request_begin", .role = ROLE_RUN_BEGIN, .action = ACTION_ENTRY, .value = { ARGUMENT_1 }, .group = GROUP_MARK,
	  .min_level = 1, .event = "Request" },
	{ .usdt = "request_end", .role = ROLE_RUN_END, .action = ACTION_ENTRY, .group = GROUP_MARK, .min_level = 1 },

	{ .symbol = "_ZN10tensorflow12_GLOBAL__N_112ExecutorImpl16RunAsyncInternalE*", .role = ROLE_EXECUTOR_START,
	  .action = ACTION_READ, .value = { ARGUMENT_2, 1, ARGS_STEP_ID },
	  .value2 = { ARGUMENT_2, 1, ARGS_CALL_FRAME }, .min_level = 2, .lost = "which run an executor belongs to",
	  .class_name = "N10tensorflow12_GLOBAL__N_112ExecutorImplE", .slot = 3 },
	{ .symbol = EXECUTOR_STATE "7ProcessE*", .role = ROLE_EXECUTOR_RUN, STATE_ARGUMENTS,
	  .event = "ExecutorState::Process", .lost = "executors" },
	{ .symbol = EXECUTOR_STATE "6FinishEv", .role = ROLE_EXECUTOR_END, STATE_ARGUMENTS, .lost = "ends of executors" },
	/* The closure holds step_id first; it is reached through the pointer that std::_Any_data is. */
	{ .symbol = "_ZNSt17_Function_handlerIFvvEZ*N10tensorflow12_GLOBAL__N_113ExecutorStateI*6FinishEv*EUlvE*_E9_M_invokeERKSt9_Any_data",
	  .role = ROLE_DONE, .action = ACTION_READ, .value = { ARGUMENT_1, 2, 0 }, .min_level = 2,
	  .event = "ExecutorDoneCallback", .lost = "done callbacks" },
	{ .symbol = EXECUTOR_STATE "13ScheduleReadyE*", .role = ROLE_SCHEDULE, .action = ACTION_ENTRY,
	  .value = { ARGUMENT_1 }, .min_level = 3, .event = "ExecutorState::ScheduleReady", .lost = "hand-over of ready ops" },

	/* Not RenamedDevice: it hands on to one of these. */
	{ .symbol = "_ZN10tensorflow16ThreadPoolDevice7ComputeE*", .role = ROLE_OP_BEGIN, OP_ARGUMENTS, .lost = "ops on CPU devices",
	  .class_name = "N10tensorflow16ThreadPoolDeviceE", .slot = SLOT_COMPUTE },
	{ .symbol = "_ZN10tensorflow16ThreadPoolDevice12ComputeAsyncE*", .role = ROLE_OP_ASYNC_BEGIN, OP_ARGUMENTS,
	  .lost = "asynchronous ops on CPU devices", .class_name = "N10tensorflow16ThreadPoolDeviceE", .slot = SLOT_COMPUTE_ASYNC },
	{ .symbol = "_ZN10tensorflow6Device7ComputeEPNS_8OpKernel*", .role = ROLE_OP_BEGIN, OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow6Device12ComputeAsyncE*", .role = ROLE_OP_ASYNC_BEGIN, OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow13BaseGPUDevice7ComputeE*", .role = ROLE_OP_BEGIN, OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow13BaseGPUDevice12ComputeAsyncE*", .role = ROLE_OP_ASYNC_BEGIN, OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow15PluggableDevice7ComputeE*", .role = ROLE_OP_BEGIN, OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow15PluggableDevice12ComputeAsyncE*", .role = ROLE_OP_ASYNC_BEGIN, OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow19NextPluggableDevice7ComputeE*", .role = ROLE_OP_BEGIN, OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow19NextPluggableDevice12ComputeAsyncE*", .role = ROLE_OP_ASYNC_BEGIN, OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow20XlaCompilationDevice7ComputeE*", .role = ROLE_OP_BEGIN, OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow9XlaDevice7ComputeE*", .role = ROLE_OP_BEGIN, OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow9XlaDevice12ComputeAsyncE*", .role = ROLE_OP_ASYNC_BEGIN, OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow15OpKernelContextD2Ev", .role = ROLE_OP_END, .action = ACTION_ENTRY,
	  .tag = ARGUMENT_1, .min_level = 2, .lost = "ends of ops", .class_name = "N10tensorflow15OpKernelContextE", .slot = 0 },
	{ .symbol = "_ZN10tensorflow8OpKernelD2Ev", .role = ROLE_OBJECT_FREE, .action = ACTION_OBJECT_FREE,
	  .value = { ARGUMENT_1 }, .min_level = 2, .lost = "the unloading of models: a new op at an old one's address may get its name",
	  .class_name = "N10tensorflow8OpKernelE", .slot = 0 },
};

/* Grappler and function inlining add names with these beside the letters of a node name. */
static bool is_name(const char *s, uint32_t size)
{
	if (!size || !(isalnum((unsigned char)s[0]) || s[0] == '.' || s[0] == '_'))
		return false;
	for (uint32_t i = 0; i < size; i++)
		if (!isalnum((unsigned char)s[i]) && !memchr("_./>-:^{}()[]=,@ ", s[i], 17))
			return false;
	return true;
}

static bool is_type(const char *s, uint32_t size)
{
	if (!size || !(isupper((unsigned char)s[0]) || s[0] == '_'))
		return false;
	for (uint32_t i = 0; i < size; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '_' && s[i] != '>')
			return false;
	return true;
}

static const char *const files[] = { "libtensorflow_framework.so*", "libtensorflow_cc.so*", "libtensorflow.so*", NULL };
static const char *const executables[] = { "tensorflow_model_server*", NULL };
static const char *const cheap_types[] = { "_Arg", "_Retval", "_DeviceArg", "_DeviceRetval", "Identity", "IdentityN", "NoOp", "Const",
					   "Shape", "Reshape", "Squeeze", "ExpandDims", "Switch", "Merge", NULL };

const struct probe_pack pack_tensorflow = {
	.name = "TensorFlow",
	.files = files,
	.executables = executables,
	.slots_release = "2.21.",
	.version_function = "TF_Version",
	.probes = probes,
	.n_probes = sizeof(probes) / sizeof(probes[0]),
	.cheap_types = cheap_types,
	.is_name = is_name,
	.is_type = is_type,
	.type_distance = 16,
};
