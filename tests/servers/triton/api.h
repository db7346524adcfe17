/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the backend calls of Triton's C API, whose headers are in no wheel: declarations of our own,
 * of the functions that libtritonserver.so exports, as Triton documents them. All objects are
 * opaque. A result of NULL is success.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define TRITON_FP32 11
#define TRITON_CPU 0
/* Flags of the last response, and of a request that is given back as a whole. */
#define TRITON_FINAL 1
#define TRITON_MORE 0
#define TRITON_ALL 1

void *TRITONBACKEND_RequestId(void *request, const char **id);
void *TRITONBACKEND_RequestInputByIndex(void *request, uint32_t index, void **input);
void *TRITONBACKEND_InputBuffer(void *input, uint32_t index, const void **buffer, uint64_t *bytes,
				int *memory, int64_t *device);
void *TRITONBACKEND_ResponseNew(void **response, void *request);
/* Of a model whose answers have several messages. */
void *TRITONBACKEND_ResponseFactoryNew(void **factory, void *request);
void *TRITONBACKEND_ResponseFactoryDelete(void *factory);
void *TRITONBACKEND_ResponseNewFromFactory(void **response, void *factory);
void *TRITONBACKEND_ModelInstanceModel(void *instance, void **model);
void *TRITONBACKEND_ModelName(void *model, const char **name);
void *TRITONBACKEND_ResponseOutput(void *response, void **output, const char *name, int type,
				   const int64_t *shape, uint32_t dimensions);
void *TRITONBACKEND_OutputBuffer(void *output, void **buffer, uint64_t bytes, int *memory,
				 int64_t *device);
void *TRITONBACKEND_ResponseSend(void *response, uint32_t flags, void *error);
void *TRITONBACKEND_RequestRelease(void *request, uint32_t flags);
/* Times of CLOCK_MONOTONIC, in ns. */
void *TRITONBACKEND_ModelInstanceReportStatistics(void *instance, void *request, bool success,
						  uint64_t begin, uint64_t compute_begin,
						  uint64_t compute_end, uint64_t end);
void *TRITONBACKEND_ModelInstanceReportBatchStatistics(void *instance, uint64_t size,
						       uint64_t begin, uint64_t compute_begin,
						       uint64_t compute_end, uint64_t end);
/* What the server calls. */
void *TRITONBACKEND_ModelInstanceExecute(void *instance, void **requests, uint32_t n);
