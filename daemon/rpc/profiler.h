/* SPDX-License-Identifier: Apache-2.0 */
/* The service that TensorBoard's capture button calls. */
#pragma once

#include "daemon/rpc/jobs.h"

/* The format of this service, which TensorBoard reads, regardless of other formats. */
#define PROFILER_FORMAT "xspace"

void profiler_profile(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void profiler_terminate(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void profiler_new_session(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void profiler_monitor(struct grpc_call *call, const uint8_t *message, size_t size, void *data);

/* Answers a capture that has ended, or a snapshot. */
void profiler_answer(struct job *job, struct capture_result *result);
bool profiler_answer_failure(struct job *job, const struct capture_result *result);
