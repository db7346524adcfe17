/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ground truth that tests compare a capture with: which thread served which request, as the
 * server itself recorded it. Kept in memory, without a lock or a system call, and written when the
 * server ends, so that a profiler does not see it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Times are nanoseconds of CLOCK_MONOTONIC. */
struct truth_record {
	uint64_t id; /* the client's, from its x-request-id; 0: none */
	bool http2;
	uint16_t peer_port;
	uint32_t stream;       /* HTTP/2's, or which request of its connection, from 1 */
	uint32_t thread;       /* id of the one that ran the model */
	uint64_t read_ns;      /* its bytes were there, and began to be parsed */
	uint64_t run_start_ns; /* of model_run(); 0: it was not run */
	uint64_t run_end_ns;
	uint64_t done_ns;  /* the answer was handed to the socket */
	const char *model; /* outlives the truth */
	bool batched;
	/* The largest input and how many rows, padding included, of the batch it was in. */
	float batch[2];
};

struct truth;

/* Records go to the file at path when it is freed. Returns 0, -ENOMEM, or what opening it gives. */
int truth_new(const char *path, struct truth **ret);
/* Any number of threads may at once. Beyond 524,288 records they are counted only. */
void truth_add(struct truth *t, const struct truth_record *record);
/* Writes one JSON object per line; a failure, or records beyond the maximum, are reported on
 * standard error. */
struct truth *truth_free(struct truth *t);

/* CLOCK_MONOTONIC. */
uint64_t truth_now_ns(void);
