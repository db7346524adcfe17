/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Triton Inference Server. Facts taken from the unmodified servers 2.39.0 to 2.51.0 of wheels
 * nvidia-pytriton (x86-64): symbols of libtritonserver.so, argument registers by disassembly.
 * Its functions return a Status by value: the result's address is their first argument.
 *
 * The identity of a request is its TRITONSERVER_InferenceRequest, from the call of the API on:
 *   TRITONSERVER_ServerInferAsync(server, request, trace)
 *     InferenceRequest::Run(request)          hands it to the scheduler of its model
 *       *BatchScheduler::Enqueue(request)     which puts it into its queue
 *   InferenceRequest::LoadInputStates()       on a model instance's thread, for each request of a
 *                                             batch, just before
 *   TritonModelInstance::Execute(requests)    which calls TRITONBACKEND_ModelInstanceExecute
 *   RateLimiter::PayloadRelease(payload)      the first thing that the thread does after it
 *
 * Entries only: a backend may throw.
 */
#include <stddef.h>

#include "daemon/plan/model.h"

enum { GROUP_INFER = 1 };

/* evhtp_request.conn, and evhtp_connection.saddr, which points to the client's address (by
 * htp__accept_cb_). What is read is accepted only if the thread has read a request from there. */
#define EVHTP_REQUEST_CONNECTION 8
#define EVHTP_CONNECTION_ADDRESS 56

#define CORE "_ZN6triton4core"
#define ENSEMBLE CORE "12_GLOBAL__N_115EnsembleContext"
#define HTTP_SERVER "_ZN6triton6server13HTTPAPIServer"
#define HTTP_ARGUMENTS                                                                             \
	POINT(REQUEST),                                                                            \
		.action = ACTION_READ, .min_level = 1,                                             \
		.value = {                                                                         \
			ARGUMENT_2, 3, EVHTP_REQUEST_CONNECTION, { EVHTP_CONNECTION_ADDRESS, 0 }   \
		}

#define INSTANCE "_ZN6triton7backend6python18ModelInstanceState"
#define INSTANCE_STUB 0x90
#define STUB_PID 4
#define TO_STUB                                                                                    \
	ENQUEUE(CHILD), .action = ACTION_READ, .min_level = 1,                                     \
			.value2 = { ARGUMENT_1, 2, INSTANCE_STUB, { STUB_PID } }

static const struct probe_row rows[] = {
	{ .symbol = "TRITONSERVER_ServerInferAsync",
	  OPEN(RUN),
	  .of_peer = true,
	  .action = ACTION_ENTRY,
	  .group = GROUP_INFER,
	  .min_level = 1,
	  .event = "ServerInferAsync",
	  .lost = "inference requests" },
	/* (result, server, model's name, version): its thread makes the call above with what this
	 * makes. */
	{ .symbol = "TRITONSERVER_InferenceRequestNew",
	  POINT(RUN),
	  .action = ACTION_TEXT_NUL,
	  .value = { ARGUMENT_3 },
	  .min_level = 1 },
	/* HTTP: the thread has read several requests, and begins with one of them. */
	{ .symbol = HTTP_SERVER "11HandleInferE*", HTTP_ARGUMENTS },
	{ .symbol = HTTP_SERVER "14HandleGenerateE*", HTTP_ARGUMENTS },
	/*
	 * gRPC: (request, allocator, its argument, function, argument of the function). The thread
	 * then makes the call above; the function passes the answer to gRPC's library.
	 */
	{ .symbol = "TRITONSERVER_InferenceRequestSetResponseCallback",
	  ENQUEUE(STREAM),
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_5 },
	  .min_level = 1 },
	{ .symbol = "_ZN6triton6server4grpc17ModelInferHandler21InferResponseCompleteE*",
	  DEQUEUE(STREAM),
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_3 },
	  .min_level = 1 },
	/* A message of a stream; one that has to wait for others is passed by another thread. */
	{ .symbol =
		  "_ZN6triton6server4grpc23ModelStreamInferHandler27StreamInferResponseCompleteE*",
	  DEQUEUE(STREAM),
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_3 },
	  .min_level = 1 },
	/* A unique_ptr is passed by reference: the request is what it points to. */
	{ .symbol = CORE "16InferenceRequest3RunE*",
	  ENQUEUE(BATCH),
	  .action = ACTION_READ,
	  .value2 = { ARGUMENT_2, 1, 0 },
	  .min_level = 1,
	  .lost = "which requests a batch has" },
	/* The steps of an ensemble are requests that its context makes, on whichever thread the
	 * step before ended. */
	{ .symbol = ENSEMBLE "C2E*",
	  ENQUEUE(PIECE),
	  .action = ACTION_READ,
	  .value2 = { ARGUMENT_1 },
	  .min_level = 1,
	  .lost = "the steps of ensembles" },
	{ .symbol = ENSEMBLE "7ProceedE*",
	  OPEN(PIECE),
	  .action = ACTION_READ,
	  .value2 = { ARGUMENT_1, 1, 0 },
	  .min_level = 1,
	  .event = "EnsembleContext::Proceed",
	  .lost = "the steps of ensembles" },
	{ .symbol = CORE "*BatchScheduler7EnqueueE*",
	  CLOSE(RUN),
	  .action = ACTION_ENTRY,
	  .group = GROUP_INFER,
	  .min_level = 1,
	  .lost = "when inference requests are queued" },
	{ .symbol = CORE "16InferenceRequest15LoadInputStatesEv",
	  DEQUEUE(BATCH),
	  .action = ACTION_READ,
	  .value2 = { ARGUMENT_2 },
	  .min_level = 1,
	  .lost = "which requests a batch has" },
	{ .symbol = CORE "19TritonModelInstance7ExecuteE*",
	  OPEN(BATCH),
	  .action = ACTION_ENTRY,
	  .min_level = 1,
	  .event = "ModelInstanceExecute",
	  .lost = "batches" },
	{ .symbol = CORE "11RateLimiter14PayloadReleaseE*",
	  CLOSE(BATCH),
	  .action = ACTION_ENTRY,
	  .min_level = 1,
	  .lost = "ends of batches" },
	/*
	 * The Python backend (libtriton_python.so): the thread of a model instance hands the batch
	 * to the instance's stub process, a child of the server (triton_python.c), and waits for
	 * it. ModelInstanceState has a StubLauncher, which has the stub's pid. What is read is
	 * accepted only if it is the pid of a child that does such work.
	 */
	{ .symbol = INSTANCE "15ProcessRequestsE*", TO_STUB },
	{ .symbol = INSTANCE "24ProcessRequestsDecoupledE*", TO_STUB },
	/* Of a request that no batch had, too: another one may have its address. */
	{ .symbol = CORE "16InferenceRequestD2Ev",
	  FREE(BATCH),
	  .action = ACTION_READ,
	  .value2 = { ARGUMENT_1 },
	  .min_level = 1 },
};

/* Wheels put a hash into the library's name. */
static const char *const files[] = { "libtritonserver*.so*", "libtriton_python.so", NULL };

static const char *const executables[] = { "tritonserver", NULL };

/* Of each wheel: the program, the library, and the Python backend. */
static const struct known_build builds[] = {
	{ "e059fc1cb55411ac92ebe735a2f8dfb8179f0a8b", "2.39.0" },
	{ "f202a9d12d651eecc74b8a18a7f94ac5012ffb42", "2.39.0" },
	{ "3e5af2577059a3cb8a3bab4045fcc5c290a92cf1", "2.39.0" },
	{ "14c55efa85376d606cbc13e05d34fc319ba5a2e2", "2.41.0" },
	{ "b68f7742366bddbb6643e48546f152e28b7ef4d9", "2.41.0" },
	{ "df1f7f7326ee13cfe243cba22e6b24785f193266", "2.41.0" },
	{ "003d785968931806cb81026d7e240dd62762d9e3", "2.44.0" },
	{ "b0114552d7005af43e91adad65192e336d93ecd0", "2.44.0" },
	{ "70188ff933cf85d2e2215f3a825f6623f47d267b", "2.44.0" },
	{ "c9f89b1438bf3fa845fcbe8f45a59758c80c3b9d", "2.49.0" },
	{ "cebbde72c871aff188f2fbb0b84cbe0d34dfa4f3", "2.49.0" },
	{ "c463e0a414f7d2e66aedca2ac04c876a06171eae", "2.49.0" },
	{ "a916d4ee7823ea3c17b3789d705e3b4455dacfc5", "2.51.0" },
	{ "4e7b621d4c7a09594f65fcbbf5f0d0b5be7607cb", "2.51.0" },
	{ "d4c11c7dfb7e5f054acf67ed7c433122c62126ce", "2.51.0" },
	{},
};

const struct pack pack_triton = {
	.name = "Triton",
	.files = files,
	.executables = executables,
	.builds = builds,
	.rows = rows,
	.n_rows = sizeof(rows) / sizeof(rows[0]),
};
