/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message to be sent: a list of pieces of memory that go to the socket from where they are, each
 * released as soon as its last byte was written or when the message is dropped. A body may be built
 * in one thread and sent in another; the release functions run in the thread of the server's loop.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct grpc_body;

/*
 * What a peer's client can receive: INT32_MAX bytes is the largest limit that TensorFlow's and
 * TensorBoard's clients set.
 */
#define GRPC_MESSAGE_MAX ((uint64_t)INT32_MAX)

/* An empty message, which is a valid one. -ENOMEM. */
int grpc_body_new(struct grpc_body **ret);
/* Releases every piece. */
struct grpc_body *grpc_body_free(struct grpc_body *body);

/*
 * Adds size bytes that stay where they are until release(data) is called; release may be NULL
 * (memory that outlives the body). On failure nothing is added and release is not called: -ENOMEM.
 * The total size is checked only when the body is sent.
 */
int grpc_body_add(struct grpc_body *body, const void *bytes, size_t size,
		  void (*release)(void *data), void *data);
/*
 * Adds a piece of malloc'ed memory, which the body owns from now on; it is freed on failure, too.
 * -ENOMEM.
 */
int grpc_body_add_owned(struct grpc_body *body, void *bytes, size_t size);
/* Adds a copy of the bytes. -ENOMEM. */
int grpc_body_add_copy(struct grpc_body *body, const void *bytes, size_t size);

/* The bytes of the message so far. */
uint64_t grpc_body_size(const struct grpc_body *body);

/*
 * For the transport: the messages of a stream that wait to be sent, as the bytes that go over the
 * wire, prefixes included. Initially zero, which means empty.
 */
struct grpc_queue {
	struct grpc_body *first, *last;
	uint64_t size;  /* of everything that is left */
	bool in_middle; /* a part of the first message was taken out */
};

struct iovec;

/* Takes ownership of the body, also on failure: -EMSGSIZE if it is above GRPC_MESSAGE_MAX. */
int grpc_queue_add(struct grpc_queue *queue, struct grpc_body *body);
/*
 * Sets up to *n_iov pieces that start at the first byte left, at most limit bytes in all, and
 * returns the number of bytes.
 */
size_t grpc_queue_peek(const struct grpc_queue *queue, size_t limit, struct iovec *iov,
		       size_t *n_iov);
/* Takes out size bytes, which must be available, and releases the pieces that end in them. */
void grpc_queue_advance(struct grpc_queue *queue, size_t size);
void grpc_queue_clear(struct grpc_queue *queue);

/* For grpc_body's own bookkeeping: a position in a message as it goes over the wire. */
struct grpc_position {
	size_t prefix; /* bytes of the prefix before it */
	size_t piece, offset;
};

/* Bytes of one message that were taken out of its queue and stay where they are until they are
 * written. */
struct grpc_range {
	struct grpc_body *body;
	struct grpc_position at;
	size_t size; /* of what is left */
};

/* Takes up to limit bytes of the queue's first message, which must exist; a range has to be
 * advanced to its end, or dropped. */
size_t grpc_queue_take(struct grpc_queue *queue, size_t limit, struct grpc_range *ret);
/* As grpc_queue_peek(). */
size_t grpc_range_peek(const struct grpc_range *range, struct iovec *iov, size_t *n_iov);
/* size bytes of it were written: pieces that end in them are released. */
void grpc_range_advance(struct grpc_range *range, size_t size);
/* The rest will not be written. */
void grpc_range_drop(struct grpc_range *range);
