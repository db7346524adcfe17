/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a connection on their way out, in order. Small parts are copied; large parts of messages
 * stay where they are until they are written. No descriptor, no clock.
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

/* Initially zero, which means empty. */
struct grpc_output {
	/* Copied bytes, one span after the other. */
	uint8_t *bytes;
	size_t start, end, allocated;
	struct grpc_span {
		size_t size;             /* of the copied bytes; 0: a range */
		struct grpc_range range; /* of a message */
	} spans[GRPC_OUTPUT_SPANS];
	size_t n_spans;
	size_t size; /* of everything that is left */
};

/* Adds a copy of the bytes. -ENOMEM. */
int grpc_output_add(struct grpc_output *output, const void *bytes, size_t size);
/* Takes size bytes, which must be available, out of the queue. -ENOMEM, and the output is
 * useless. */
int grpc_output_take(struct grpc_output *output, struct grpc_queue *queue, size_t size);
/* Whether nothing should be added until something is written. */
bool grpc_output_full(const struct grpc_output *output);
/* Sets up to GRPC_OUTPUT_PIECES pieces that start at the first byte left, and returns their total
 * size. */
size_t grpc_output_peek(const struct grpc_output *output,
			struct iovec iov[static GRPC_OUTPUT_PIECES], size_t *ret_n);
/* Takes out size bytes, which must be available. */
void grpc_output_advance(struct grpc_output *output, size_t size);
void grpc_output_clear(struct grpc_output *output);
