/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a connection on their way out, in order. What is small is copied; large parts of
 * messages stay where they are until they were written. No descriptor, no clock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "lib/grpc/body.h"

/* Pieces of memory that one write takes. */
#define GRPC_OUTPUT_PIECES 64
#define GRPC_OUTPUT_SPANS 8

/* Zeroed it is empty. */
struct grpc_output {
	/* What was copied, one span after the other. */
	uint8_t *bytes;
	size_t start, end, allocated;
	struct grpc_span {
		size_t size;             /* of what was copied; 0: a range */
		struct grpc_range range; /* of a message */
	} spans[GRPC_OUTPUT_SPANS];
	size_t n_spans;
	size_t size; /* of all that is left */
};

/* Adds a copy of the bytes. -ENOMEM. */
int grpc_output_add(struct grpc_output *output, const void *bytes, size_t size);
/* Takes size bytes, which are there, out of the queue. -ENOMEM, and the output is of no more use.
 */
int grpc_output_take(struct grpc_output *output, struct grpc_queue *queue, size_t size);
/* Whether nothing should be added before something was written. */
bool grpc_output_full(const struct grpc_output *output);
/* Sets up to GRPC_OUTPUT_PIECES pieces that start at the first byte left, and returns their bytes.
 */
size_t grpc_output_peek(const struct grpc_output *output,
			struct iovec iov[static GRPC_OUTPUT_PIECES], size_t *ret_n);
/* Takes out size bytes, which are there. */
void grpc_output_advance(struct grpc_output *output, size_t size);
void grpc_output_clear(struct grpc_output *output);
