/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow. Facts taken from the unmodified 2.21.0 CPU wheel (x86-64): the symbols of
 * libtensorflow_framework.so.2 and libtensorflow_cc.so.2, the argument registers and the offsets
 * by disassembly. tensorflow_model_server contains the same names. What differs in the CPU wheels
 * of 2.12.1, 2.15.1, 2.16.2, 2.18.1 and 2.20.0 was read in the same way, and is in rows of their
 * own.
 *
 * No return probes but one: a C++ exception that crosses a probed frame would abort the process.
 * What begins at one entry ends at another one of the same thread:
 *   an op         Device::Compute            → ~OpKernelContext of the context that Compute was
 *                 given
 *   a session run DirectSession::RunInternal → ~RunState, a local variable of RunInternal
 *   a function    KernelAndDeviceFunc::Run   → ~ScopedSetRound, a local variable around the run
 *   a batch       BatchResourceBase::Process*Batch → ~Batch of the batch that it was given, by its
 *                 caller
 *   an element    DatasetBaseIterator::GetNext → IteratorContext::SaveCheckpoint, which it calls
 *                 with itself once it has the element
 *   a load        metrics::SavedModelReadApi → SavedModelReadPath, at the two ends of
 *                 LoadSavedModel and of Python's load
 *   a restore     BundleReader() → ~BundleReader
 *   a request     HttpRestApiHandler::ProcessRequest → RecordModelRequestCount, which its caller
 *                 does next
 *                 PredictionServiceImpl::Predict     → RecordModelRequestCount, the last thing
 *                                                    that it does
 *
 * Names of tensorflow::serving that libtensorflow_cc.so.2 does not have (BatchingSession,
 * handlers) come from TensorFlow Serving's source; the types in them determine where the
 * arguments are. Closures of the thread pools are left out: Eigen::RunQueue::PushFront and PushBack
 * are entered for each, but the thread that takes one does so in code that was inlined into
 * MaybeGetTask: of 954,503 that were scheduled 17,634 passed Task::operator=, the stolen ones.
 */
#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "daemon/plan/model.h"

enum { GROUP_SESSION = 1, GROUP_FUNCTION, GROUP_HANDLER, GROUP_INFERENCE };

/*
 * ExecutorState copies from Executor::Args (ExecutorImpl::RunAsyncInternal): step_id at 0 to 16,
 * call_frame at 40 to 176. The call frame is an object of its own for every call that is alive.
 */
#define ARGS_STEP_ID 0
#define ARGS_CALL_FRAME 40
#define STATE_STEP_ID 16
#define STATE_CALL_FRAME 176
/* A member before it has one word less there. */
#define STATE_CALL_FRAME_2_16 168
static const char *const release_2_16[] = { "2.16.", NULL };
/* Its compiler inlined BFCAllocator::AddTraceMe() into a function that is not given the sizes. */
static const char *const release_2_18[] = { "2.18.", NULL };
static const char *const release_2_12[] = { "2.12.", NULL };

/* ExecutorState<PropagatorState>, <SimplePropagatorState>, <OrderedPropagatorState> */
#define EXECUTOR_STATE "_ZN10tensorflow12_GLOBAL__N_113ExecutorStateINS_*PropagatorStateEE"

/* Virtual functions of Device, counted in 2.21. */
#define SLOT_COMPUTE 23
#define SLOT_COMPUTE_ASYNC 24

/* Batch<BatchResourceBase::BatchTask>, of the op BatchFunction, and Batch<BatchingSessionTask>, of
 * TensorFlow Serving. */
#define BATCH "_ZN10tensorflow7serving5BatchINS0_*TaskEE"
#define BATCH_RESOURCE "17BatchResourceBase"
/* A unique_ptr is passed by reference: the batch is what it points to. */
#define BATCH_POINTER(argument) .action = ACTION_READ, .value = { argument, 1, 0 }, .min_level = 2
/* libstdc++'s std::string, which __cxx11 in the name stands for. */
#define STRING_DATA 0
#define STRING_SIZE 8
/* Of a tf.data iterator: its name, BaseParams::prefix (BuildTraceMeName begins with it). */
#define ITERATOR_NAME 112
/* One of TensorFlow Serving's two implementations of the gRPC service. */
#define PREDICTION_SERVICE "_ZN10tensorflow7serving*PredictionServiceImpl"

/* A handler's end is an entry that its caller makes, adjacent on the stack. More than the arguments
 * there. */
#define HANDLER_SLACK 1024

/* In 2.21 it takes a std::align_val_t, in older releases an int. No exception crosses it: it calls
 * only posix_memalign() or malloc(), which are C functions and throw none, whoever implements them.
 */
#define ALIGNED_MALLOC "_ZN3tsl4port13AlignedMallocEmSt11align_val_t"
#define ALIGNED_MALLOC_INT "_ZN3tsl4port13AlignedMallocEmi"
#define MALLOC_BEGINS(name)                                                                        \
	.symbol = name, OPEN(ALLOC), .action = ACTION_ENTRY, .value = { ARGUMENT_1 },              \
	.lost = "allocations"
#define MALLOC_RETURNS(name)                                                                       \
	.symbol = name, CLOSE(ALLOC), .action = ACTION_ENTRY, .at_return = true,                   \
	.lost = "addresses of allocations"

#define OP_ARGUMENTS                                                                               \
	.action = ACTION_OBJECT, .value = { ARGUMENT_2 }, .tag = { ARGUMENT_3 }, .min_level = 2
#define EXECUTOR_BEGINS(call_frame, ...)                                                           \
	.symbol = EXECUTOR_STATE "7ProcessE*", OPEN(PIECE), STATE_ARGUMENTS(call_frame),           \
	.event = "ExecutorState::Process", .lost = "executors", __VA_ARGS__
#define EXECUTOR_ENDS(call_frame, ...)                                                             \
	.symbol = EXECUTOR_STATE "6FinishEv", CLOSE(PIECE), STATE_ARGUMENTS(call_frame),           \
	.lost = "ends of executors", __VA_ARGS__
#define STATE_ARGUMENTS(call_frame)                                                                \
	.action = ACTION_READ, .value = { ARGUMENT_1, 1, STATE_STEP_ID },                          \
	.value2 = { ARGUMENT_1, 1, call_frame }, .tag = { ARGUMENT_1 }, .min_level = 2
#define RUN_OF_EXECUTOR                                                                            \
	ENQUEUE(PIECE), .action = ACTION_READ, .value = { ARGUMENT_2, 1, ARGS_STEP_ID },           \
			.value2 = { ARGUMENT_2, 1, ARGS_CALL_FRAME }, .min_level = 2,              \
			.lost = "which run an executor belongs to"

static const struct probe_row rows[] = {
	{ .symbol = "_ZN10tensorflow13DirectSession11RunInternalE*",
	  OPEN(RUN),
	  .action = ACTION_ENTRY,
	  /* Returns absl::Status by value: result, this, step_id. */
	  .value = { ARGUMENT_3 },
	  .group = GROUP_SESSION,
	  .min_level = 1,
	  .event = "SessionRun",
	  .lost = "session runs" },
	{ .symbol = "_ZN10tensorflow13DirectSession8RunStateD2Ev",
	  CLOSE(RUN),
	  .action = ACTION_ENTRY,
	  .group = GROUP_SESSION,
	  .min_level = 1,
	  .lost = "ends of session runs" },
	/* In 2.12 RunInternal destroys its RunState in place, right after another local variable.
	 */
	{ .symbol = "_ZN3tsl19CancellationManagerD2Ev",
	  CLOSE(RUN),
	  .action = ACTION_ENTRY,
	  .group = GROUP_SESSION,
	  .min_level = 1,
	  .lost = "ends of session runs",
	  .releases = release_2_12 },
	{ .symbol = "_ZN10tensorflow19KernelAndDeviceFunc3RunE*",
	  OPEN(RUN),
	  .action = ACTION_ENTRY,
	  .group = GROUP_FUNCTION,
	  .min_level = 1,
	  .event = "FunctionRun",
	  .lost = "function runs",
	  .class_name = "N10tensorflow19KernelAndDeviceFuncE",
	  .slot = 6 },
	{ .symbol = "_ZN3tsl4port14ScopedSetRoundD2Ev",
	  CLOSE(RUN),
	  .action = ACTION_ENTRY,
	  .group = GROUP_FUNCTION,
	  .min_level = 1,
	  .lost = "ends of function runs" },

	{ .symbol = "_ZN10tensorflow12_GLOBAL__N_112ExecutorImpl16RunAsyncInternalE*",
	  RUN_OF_EXECUTOR,
	  .class_name = "N10tensorflow12_GLOBAL__N_112ExecutorImplE",
	  .slot = 3 },
	/* The same in 2.12. */
	{ .symbol = "_ZN10tensorflow12_GLOBAL__N_112ExecutorImpl8RunAsyncE*", RUN_OF_EXECUTOR },
	{ EXECUTOR_BEGINS(STATE_CALL_FRAME, .releases = release_2_16, .except = true) },
	{ EXECUTOR_BEGINS(STATE_CALL_FRAME_2_16, .releases = release_2_16) },
	{ EXECUTOR_ENDS(STATE_CALL_FRAME, .releases = release_2_16, .except = true) },
	{ EXECUTOR_ENDS(STATE_CALL_FRAME_2_16, .releases = release_2_16) },
	/* The closure holds step_id first; it is reached through the pointer that std::_Any_data
	   is. */
	{ .symbol =
		  "_ZNSt17_Function_handlerIFvvEZ*N10tensorflow12_GLOBAL__N_113ExecutorStateI*6FinishEv*EUlvE*_E9_M_invokeERKSt9_Any_data",
	  OPEN(PIECE),
	  .last = true,
	  .action = ACTION_READ,
	  .value = { ARGUMENT_1, 2, 0 },
	  .min_level = 2,
	  .event = "ExecutorDoneCallback",
	  .lost = "done callbacks" },
	{ .symbol = EXECUTOR_STATE "13ScheduleReadyE*",
	  ENQUEUE(OP),
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_1 },
	  .min_level = 3,
	  .event = "ExecutorState::ScheduleReady",
	  .lost = "hand-over of ready ops" },

	/* Not RenamedDevice: it forwards to one of these. */
	{ .symbol = "_ZN10tensorflow16ThreadPoolDevice7ComputeE*",
	  OPEN(OP),
	  OP_ARGUMENTS,
	  .lost = "ops on CPU devices",
	  .class_name = "N10tensorflow16ThreadPoolDeviceE",
	  .slot = SLOT_COMPUTE },
	{ .symbol = "_ZN10tensorflow16ThreadPoolDevice12ComputeAsyncE*",
	  OPEN(OP),
	  .async = true,
	  OP_ARGUMENTS,
	  .lost = "asynchronous ops on CPU devices",
	  .class_name = "N10tensorflow16ThreadPoolDeviceE",
	  .slot = SLOT_COMPUTE_ASYNC },
	/* In 2.12 it has no instruction that the kernel emulates, and no device of the CPU wheel
	 * is without its own. */
	{ .symbol = "_ZN10tensorflow6Device7ComputeEPNS_8OpKernel*",
	  OPEN(OP),
	  OP_ARGUMENTS,
	  .releases = release_2_12,
	  .except = true },
	{ .symbol = "_ZN10tensorflow6Device12ComputeAsyncE*",
	  OPEN(OP),
	  .async = true,
	  OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow13BaseGPUDevice7ComputeE*", OPEN(OP), OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow13BaseGPUDevice12ComputeAsyncE*",
	  OPEN(OP),
	  .async = true,
	  OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow15PluggableDevice7ComputeE*", OPEN(OP), OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow15PluggableDevice12ComputeAsyncE*",
	  OPEN(OP),
	  .async = true,
	  OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow19NextPluggableDevice7ComputeE*", OPEN(OP), OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow19NextPluggableDevice12ComputeAsyncE*",
	  OPEN(OP),
	  .async = true,
	  OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow20XlaCompilationDevice7ComputeE*", OPEN(OP), OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow9XlaDevice7ComputeE*", OPEN(OP), OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow9XlaDevice12ComputeAsyncE*",
	  OPEN(OP),
	  .async = true,
	  OP_ARGUMENTS },
	{ .symbol = "_ZN10tensorflow15OpKernelContextD2Ev",
	  CLOSE(OP),
	  .action = ACTION_ENTRY,
	  .tag = { ARGUMENT_1 },
	  .min_level = 2,
	  .lost = "ends of ops",
	  .class_name = "N10tensorflow15OpKernelContextE",
	  .slot = 0 },
	/* On the thread of the op, for each of its tasks: several if a large one is split. Every
	 * scheduler calls it. */
	{ .symbol = BATCH "7AddTaskE*",
	  ENQUEUE(BATCH),
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_1 },
	  .min_level = 2,
	  .lost = "which runs a batch is of" },
	{ .symbol = "_ZNK10tensorflow7serving" BATCH_RESOURCE "16ProcessFuncBatchE*",
	  OPEN(BATCH),
	  BATCH_POINTER(ARGUMENT_2),
	  .event = "ProcessBatch",
	  .lost = "batches" },
	{ .symbol = "_ZNK10tensorflow7serving" BATCH_RESOURCE "12ProcessBatchE*",
	  OPEN(BATCH),
	  BATCH_POINTER(ARGUMENT_2),
	  .event = "ProcessBatch" },
	{ .symbol = "_ZN10tensorflow7serving15BatchingSession12ProcessBatchE*",
	  OPEN(BATCH),
	  BATCH_POINTER(ARGUMENT_3),
	  .event = "ProcessBatch" },
	{ .symbol = "_ZN10tensorflow7serving23GetNextAllowedBatchSizeEiRKSt6vector*",
	  POINT(BATCH),
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_1 },
	  .min_level = 2 },
	/* For releases that do not inline it. */
	{ .symbol = "_ZNK10tensorflow7serving" BATCH_RESOURCE "29RoundToLowestAllowedBatchSizeEi*",
	  POINT(BATCH),
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_2 },
	  .min_level = 2 },
	{ .symbol = "_ZN10tensorflow7serving29RoundToLowestAllowedBatchSizeERKSt6vectorIiSaIiEEi",
	  POINT(BATCH),
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_2 },
	  .min_level = 2 },
	/* Likewise: (costs, rows with padding, batch). */
	{ .symbol = "_ZN10tensorflow7serving" BATCH_RESOURCE
		    "*SplitBatchCosts*ERSt6vector*ElRNS0_5Batch*",
	  POINT(BATCH),
	  .action = ACTION_READ,
	  .value = { ARGUMENT_3 },
	  .value2 = { ARGUMENT_2 },
	  .min_level = 2 },
	/* (model, op, costs, rows with padding, batch): when the batch's tasks are notified that
	 * they are done. */
	{ .symbol =
		  "_ZN10tensorflow7serving" BATCH_RESOURCE
		  "31SplitBatchCostsAndRecordMetricsERKNSt7__cxx1112basic_string*ES9_RKSt6vector*ElRNS0_5Batch*",
	  POINT(BATCH),
	  .action = ACTION_READ,
	  .value = { ARGUMENT_5 },
	  .value2 = { ARGUMENT_4 },
	  .min_level = 2 },
	{ .symbol = BATCH "D0Ev",
	  CLOSE(BATCH),
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_1 },
	  .min_level = 2,
	  .lost = "ends of batches" },
	{ .symbol = "_ZN10tensorflow7serving8internal9ASBSBatchINS0_*TaskEED0Ev",
	  CLOSE(BATCH),
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_1 },
	  .min_level = 2 },

	/*
	 * TensorFlow Serving's handlers. This one returns absl::Status by value: result, this,
	 * method, path, body; the middle ones are string views in two registers each: the standard
	 * library's, {size, pointer}, and that of older builds of Abseil, {pointer, size}.
	 */
	{ .symbol =
		  "_ZN10tensorflow7serving*HttpRestApiHandler14ProcessRequestESt17basic_string_view*",
	  OPEN(REQUEST),
	  .slack = HANDLER_SLACK,
	  .action = ACTION_TEXT,
	  .value = { ARGUMENT_6 },
	  .value2 = { ARGUMENT_5 },
	  .group = GROUP_HANDLER,
	  .min_level = 1,
	  .event = "HttpRestApiHandler::ProcessRequest" },
	{ .symbol =
		  "_ZN10tensorflow7serving*HttpRestApiHandler14ProcessRequestEN4absl*11string_viewE*",
	  OPEN(REQUEST),
	  .slack = HANDLER_SLACK,
	  .action = ACTION_TEXT,
	  .value = { ARGUMENT_5 },
	  .value2 = { ARGUMENT_6 },
	  .group = GROUP_HANDLER,
	  .min_level = 1,
	  .event = "HttpRestApiHandler::ProcessRequest" },
	{ .symbol = PREDICTION_SERVICE "7PredictE*",
	  OPEN(REQUEST),
	  .slack = HANDLER_SLACK,
	  .action = ACTION_ENTRY,
	  .group = GROUP_HANDLER,
	  .min_level = 1,
	  .event = "PredictionService::Predict" },
	{ .symbol = PREDICTION_SERVICE "8ClassifyE*",
	  OPEN(REQUEST),
	  .slack = HANDLER_SLACK,
	  .action = ACTION_ENTRY,
	  .group = GROUP_HANDLER,
	  .min_level = 1,
	  .event = "PredictionService::Classify" },
	{ .symbol = PREDICTION_SERVICE "7RegressE*",
	  OPEN(REQUEST),
	  .slack = HANDLER_SLACK,
	  .action = ACTION_ENTRY,
	  .group = GROUP_HANDLER,
	  .min_level = 1,
	  .event = "PredictionService::Regress" },
	{ .symbol = "_ZN10tensorflow7serving23RecordModelRequestCountERKNSt7__cxx1112basic_string*",
	  CLOSE(REQUEST),
	  .action = ACTION_TEXT,
	  .value = { ARGUMENT_1, 1, STRING_DATA },
	  .value2 = { ARGUMENT_1, 1, STRING_SIZE },
	  .group = GROUP_HANDLER,
	  .min_level = 1,
	  .event = "request" },
	/* The one that does not count a model's requests; its status is converted to gRPC's at its
	 * end. Other services do that, too. */
	{ .symbol = PREDICTION_SERVICE "14MultiInferenceE*",
	  OPEN(REQUEST),
	  .slack = HANDLER_SLACK,
	  .action = ACTION_ENTRY,
	  .group = GROUP_INFERENCE,
	  .min_level = 1,
	  .event = "PredictionService::MultiInference" },
	{ .symbol = "_ZN10tensorflow7serving12ToGRPCStatusE*",
	  CLOSE(REQUEST),
	  .action = ACTION_ENTRY,
	  .group = GROUP_INFERENCE,
	  .min_level = 1 },

	/* Memory that the CPU allocators (cpu, and oneDNN's for less than 256 KiB) get from
	 * malloc(). */
	{ MALLOC_BEGINS(ALIGNED_MALLOC) },
	{ MALLOC_RETURNS(ALIGNED_MALLOC) },
	{ MALLOC_BEGINS(ALIGNED_MALLOC_INT) },
	{ MALLOC_RETURNS(ALIGNED_MALLOC_INT) },
	{ .symbol = "_ZN3tsl4port11AlignedFreeEPv",
	  FREE(ALLOC),
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_1 },
	  .lost = "deallocations" },
	{ .symbol = "_ZN3tsl4port16AlignedSizedFreeEPvm*",
	  FREE(ALLOC),
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_1 } },
	/*
	 * The allocator of GPUs, and of oneDNN from 256 KiB on, calls it for each piece: this, a
	 * word ("MemoryAllocation" or "MemoryDeallocation": size, pointer), address, bytes
	 * requested, bytes allocated.
	 */
	{ .symbol = "_ZN3tsl12BFCAllocator10AddTraceMeE*PKvll",
	  POINT(ALLOC),
	  .action = ACTION_READ,
	  .value = { ARGUMENT_4 },
	  .value2 = { ARGUMENT_6 },
	  .tag = { ARGUMENT_2 },
	  .lost = "allocations of the BFC allocator",
	  .releases = release_2_18,
	  .except = true },

	/* Returns absl::Status by value: result, this. */
	{ .symbol = "_ZN10tensorflow4data19DatasetBaseIterator7GetNextEPNS0_15IteratorContextE*",
	  OPEN(STAGE),
	  .action = ACTION_TEXT_END,
	  .value = { ARGUMENT_2, 1, ITERATOR_NAME + STRING_DATA },
	  .value2 = { ARGUMENT_2, 1, ITERATOR_NAME + STRING_SIZE },
	  .tag = { ARGUMENT_2 },
	  .min_level = 2,
	  .lost = "iterators of tf.data" },
	{ .symbol = "_ZN10tensorflow4data15IteratorContext14SaveCheckpointE*",
	  CLOSE(STAGE),
	  .action = ACTION_ENTRY,
	  .tag = { ARGUMENT_2 },
	  .min_level = 2,
	  .lost = "ends of tf.data's iterators" },

	/*
	 * How a process starts. Python's loader, which is not a function here, passes the same
	 * marks: it has read the SavedModel before the first, and reads the fingerprint after the
	 * last. Returns StatusOr<FingerprintDef> by value: result, string view.
	 */
	{ .symbol = "_ZN10tensorflow23ThreadPoolDeviceFactory13CreateDevicesE*",
	  OPEN(RUNTIME),
	  .action = ACTION_ENTRY,
	  .lost = "when the runtime is ready" },
	{ .symbol = "_ZN10tensorflow7metrics17SavedModelReadApiESt17basic_string_view*",
	  OPEN(LOAD),
	  .action = ACTION_ENTRY,
	  .lost = "loads of models" },
	{ .symbol =
		  "_ZN10tensorflow11saved_model14fingerprinting25ReadSavedModelFingerprintESt17basic_string_view*",
	  POINT(LOAD),
	  .action = ACTION_TEXT_END,
	  .value = { ARGUMENT_3 },
	  .value2 = { ARGUMENT_2 },
	  .lost = "paths of models" },
	{ .symbol = "_ZN10tensorflow7metrics18SavedModelReadPathB5cxx11Ev",
	  CLOSE(LOAD),
	  .action = ACTION_ENTRY,
	  .lost = "ends of loads" },
	{ .symbol =
		  "_ZN10tensorflow12BundleReaderC2EPN3tsl3EnvESt17basic_string_view*NS0_7OptionsE",
	  OPEN(WEIGHTS),
	  .action = ACTION_TEXT_END,
	  .value = { ARGUMENT_4 },
	  .value2 = { ARGUMENT_3 },
	  .tag = { ARGUMENT_1 },
	  .lost = "the reading of variables" },
	{ .symbol = "_ZN10tensorflow12BundleReaderD2Ev",
	  CLOSE(WEIGHTS),
	  .action = ACTION_ENTRY,
	  .tag = { ARGUMENT_1 },
	  .lost = "until when variables are read" },

	{ .symbol = "_ZN10tensorflow8OpKernelD2Ev",
	  FREE(OP),
	  .action = ACTION_OBJECT_FREE,
	  .value = { ARGUMENT_1 },
	  .min_level = 2,
	  .lost = "the unloading of models: a new op at an old one's address may get its name",
	  .class_name = "N10tensorflow8OpKernelE",
	  .slot = 0 },
};

/* Grappler and function inlining add names with these characters beside those of a node name. */
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

static const char *const files[] = { "libtensorflow_framework.so*", "libtensorflow_cc.so*",
				     "libtensorflow.so*", NULL };
static const char *const executables[] = { "tensorflow_model_server*", NULL };
static const char *const cheap_types[] = { "_Arg",     "_Retval",   "_DeviceArg", "_DeviceRetval",
					   "Identity", "IdentityN", "NoOp",       "Const",
					   "Shape",    "Reshape",   "Squeeze",    "ExpandDims",
					   "Switch",   "Merge",     NULL };

static const char *const slots_releases[] = { "2.21.", NULL };

const struct pack pack_tensorflow = {
	.name = "TensorFlow",
	.files = files,
	.executables = executables,
	.slots_releases = slots_releases,
	.version_function = "TF_Version",
	.rows = rows,
	.n_rows = sizeof(rows) / sizeof(rows[0]),
	.cheap_types = cheap_types,
	.names = { .form = NAME_VIEW, .type_distance = 16, .is_name = is_name, .is_type = is_type },
	.stage_word = "Iterator",
	.chunk_tags = { sizeof("MemoryAllocation") - 1, sizeof("MemoryDeallocation") - 1 },
	.weights_folder = "/variables/",
};
