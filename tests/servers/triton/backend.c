/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backend of Triton: the answer to x is x / 2 + 2. A batch takes $TRITON_WORK_US. The model
 * "decoupled" answers each request with several messages, which are the same. What it did is
 * in the file $TRITON_TRUTH when the server has ended, a line for each request: thread, batch,
 * requests of the batch, begin and end (CLOCK_MONOTONIC, ns), id of the request.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/servers/triton/api.h"

#define REQUESTS_MAX 64
#define MESSAGES 3

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void must(void *error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "backend: %s failed\n", what);
	abort();
}

static void work(void)
{
	const char *us = getenv("TRITON_WORK_US");
	struct timespec t = { .tv_nsec = (us ? atol(us) : 1000) * 1000 };

	nanosleep(&t, NULL);
}

static float result(void *request)
{
	const void *from;
	void *input;
	uint64_t bytes;
	int64_t device = 0;
	int memory = TRITON_CPU;
	float x;

	must(TRITONBACKEND_RequestInputByIndex(request, 0, &input), "input");
	must(TRITONBACKEND_InputBuffer(input, 0, &from, &bytes, &memory, &device), "its buffer");
	memcpy(&x, from, sizeof(x));
	return x / 2 + 2;
}

static void send_result(void *response, float y, uint32_t flags)
{
	const int64_t shape[] = { 1, 1 };
	int64_t device = 0;
	int memory = TRITON_CPU;
	void *output, *to;

	must(TRITONBACKEND_ResponseOutput(response, &output, "y", TRITON_FP32, shape, 2), "output");
	must(TRITONBACKEND_OutputBuffer(output, &to, sizeof(y), &memory, &device), "its buffer");
	memcpy(to, &y, sizeof(y));
	must(TRITONBACKEND_ResponseSend(response, flags, NULL), "sending");
}

static void answer(void *request)
{
	void *response;

	must(TRITONBACKEND_ResponseNew(&response, request), "response");
	send_result(response, result(request), TRITON_FINAL);
}

static void answer_in_messages(void *request)
{
	void *factory, *response;

	must(TRITONBACKEND_ResponseFactoryNew(&factory, request), "responses");
	for (int i = 1; i <= MESSAGES; i++) {
		must(TRITONBACKEND_ResponseNewFromFactory(&response, factory), "response");
		send_result(response, result(request), i < MESSAGES ? TRITON_MORE : TRITON_FINAL);
	}
	must(TRITONBACKEND_ResponseFactoryDelete(factory), "responses");
}

static bool is_decoupled(void *instance)
{
	const char *name;
	void *model;

	must(TRITONBACKEND_ModelInstanceModel(instance, &model), "model");
	must(TRITONBACKEND_ModelName(model, &name), "its name");
	return !strcmp(name, "decoupled");
}

void *TRITONBACKEND_ModelInstanceExecute(void *instance, void **requests, uint32_t n)
{
	static atomic_uint batches;
	static _Atomic(FILE *) truth;
	char ids[REQUESTS_MAX][32] = {};
	uint64_t begin = now_ns(), computed, end;
	unsigned batch = atomic_fetch_add(&batches, 1);
	bool decoupled = is_decoupled(instance);
	FILE *file = truth;
	const char *id;

	if (!file && getenv("TRITON_TRUTH")) {
		file = fopen(getenv("TRITON_TRUTH"), "w");
		truth = file;
	}
	work();
	computed = now_ns();
	for (uint32_t i = 0; i < n; i++) {
		must(TRITONBACKEND_RequestId(requests[i], &id), "id");
		if (i < REQUESTS_MAX)
			snprintf(ids[i], sizeof(ids[i]), "%s", id);
		if (decoupled)
			answer_in_messages(requests[i]);
		else
			answer(requests[i]);
	}
	end = now_ns();
	for (uint32_t i = 0; i < n; i++) {
		must(TRITONBACKEND_ModelInstanceReportStatistics(instance, requests[i], true, begin,
								 begin, computed, end),
		     "statistics");
		must(TRITONBACKEND_RequestRelease(requests[i], TRITON_ALL), "release");
	}
	must(TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, n, begin, begin, computed,
							      end),
	     "statistics");
	for (uint32_t i = 0; file && i < n && i < REQUESTS_MAX; i++)
		fprintf(file, "%d %u %u %lu %lu %s\n", gettid(), batch, n, begin, end, ids[i]);
	return NULL;
}
