/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/grpc/body.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "lib/base/array.h"
#include "lib/base/macro.h"
#include "lib/grpc/framing.h"

struct piece {
	const uint8_t *bytes;
	size_t size;
	void (*release)(void *data);
	void *data;
};

struct grpc_body {
	struct grpc_body *next; /* in a queue */
	uint64_t size;
	uint8_t prefix[GRPC_PREFIX_SIZE];
	struct piece *pieces;
	size_t n_pieces, n_allocated;
	size_t n_released;
	struct grpc_position taken; /* what is before it has left the queue */
	unsigned n_holds;           /* ranges of it that are not written */
	bool in_queue;
};

int grpc_body_new(struct grpc_body **ret)
{
	struct grpc_body *body = calloc(1, sizeof(*body));

	if (!body)
		return -ENOMEM;
	*ret = body;
	return 0;
}

static void piece_release(struct piece *piece)
{
	if (piece->release)
		piece->release(piece->data);
}

struct grpc_body *grpc_body_free(struct grpc_body *body)
{
	if (!body)
		return NULL;
	while (body->n_released < body->n_pieces)
		piece_release(&body->pieces[body->n_released++]);
	free(body->pieces);
	free(body);
	return NULL;
}

int grpc_body_add(struct grpc_body *body, const void *bytes, size_t size,
		  void (*release)(void *data), void *data)
{
	if (array_reserve(&body->pieces, body->n_pieces, &body->n_allocated,
			  sizeof(body->pieces[0]), 1) < 0)
		return -ENOMEM;
	body->pieces[body->n_pieces++] =
		(struct piece){ .bytes = bytes, .size = size, .release = release, .data = data };
	body->size += size;
	return 0;
}

int grpc_body_add_owned(struct grpc_body *body, void *bytes, size_t size)
{
	int r = grpc_body_add(body, bytes, size, free, bytes);

	if (r < 0)
		free(bytes);
	return r;
}

int grpc_body_add_copy(struct grpc_body *body, const void *bytes, size_t size)
{
	void *copy;

	if (!size)
		return 0;
	copy = malloc(size);
	if (!copy)
		return -ENOMEM;
	return grpc_body_add_owned(body, memcpy(copy, bytes, size), size);
}

uint64_t grpc_body_size(const struct grpc_body *body)
{
	return body->size;
}

/* Moves the position forward, within the message, and returns the number of bytes. Pieces without
 * bytes are passed together with the one before them. */
static size_t body_move(const struct grpc_body *body, struct grpc_position *position, size_t size)
{
	size_t n = MIN(size, GRPC_PREFIX_SIZE - position->prefix), moved = n;

	position->prefix += n;
	while (position->prefix == GRPC_PREFIX_SIZE && position->piece < body->n_pieces) {
		size_t left = body->pieces[position->piece].size - position->offset;

		n = MIN(size - moved, left);
		position->offset += n;
		moved += n;
		if (n < left)
			break;
		position->piece++;
		position->offset = 0;
	}
	return moved;
}

static size_t body_peek(const struct grpc_body *body, struct grpc_position at, size_t limit,
			struct iovec *iov, size_t *n_iov)
{
	size_t n = 0, total = 0;

	if (at.prefix < GRPC_PREFIX_SIZE && *n_iov && limit) {
		iov[n] = (struct iovec){ (void *)(body->prefix + at.prefix),
					 MIN(GRPC_PREFIX_SIZE - at.prefix, limit) };
		total = iov[n++].iov_len;
	}
	for (; at.piece < body->n_pieces && n < *n_iov && total < limit;
	     at.piece++, at.offset = 0) {
		const struct piece *piece = &body->pieces[at.piece];

		if (piece->size == at.offset)
			continue;
		iov[n] = (struct iovec){ (void *)(piece->bytes + at.offset),
					 MIN(piece->size - at.offset, limit - total) };
		total += iov[n++].iov_len;
	}
	*n_iov = n;
	return total;
}

static void body_release_before(struct grpc_body *body, const struct grpc_position *position)
{
	while (body->n_released < position->piece)
		piece_release(&body->pieces[body->n_released++]);
}

/* Releases pieces that are no longer needed after a range was written, or bytes were taken. */
static void body_settle(struct grpc_body *body)
{
	if (body->n_holds)
		return;
	if (!body->in_queue)
		grpc_body_free(body);
	else
		body_release_before(body, &body->taken);
}

int grpc_queue_add(struct grpc_queue *queue, struct grpc_body *body)
{
	if (body->size > GRPC_MESSAGE_MAX) {
		grpc_body_free(body);
		return -EMSGSIZE;
	}
	grpc_prefix_write(body->prefix, (uint32_t)body->size);
	if (queue->last)
		queue->last->next = body;
	else
		queue->first = body;
	queue->last = body;
	queue->size += GRPC_PREFIX_SIZE + body->size;
	body->in_queue = true;
	return 0;
}

static void queue_drop_first(struct grpc_queue *queue)
{
	struct grpc_body *body = queue->first;

	queue->first = body->next;
	if (!queue->first)
		queue->last = NULL;
	body->in_queue = false;
	body_settle(body);
}

size_t grpc_queue_peek(const struct grpc_queue *queue, size_t limit, struct iovec *iov,
		       size_t *n_iov)
{
	size_t n = 0, total = 0;

	for (const struct grpc_body *body = queue->first; body && n < *n_iov && total < limit;
	     body = body->next) {
		size_t left = *n_iov - n;

		total += body_peek(body, body->taken, limit - total, iov + n, &left);
		n += left;
	}
	*n_iov = n;
	return total;
}

void grpc_queue_advance(struct grpc_queue *queue, size_t size)
{
	while (queue->first && size) {
		struct grpc_body *body = queue->first;
		size_t n = body_move(body, &body->taken, size);

		size -= n;
		queue->size -= n;
		queue->in_middle =
			body->taken.prefix < GRPC_PREFIX_SIZE || body->taken.piece < body->n_pieces;
		if (queue->in_middle)
			body_settle(body);
		else
			queue_drop_first(queue);
	}
}

void grpc_queue_clear(struct grpc_queue *queue)
{
	while (queue->first)
		queue_drop_first(queue);
	*queue = (struct grpc_queue){ 0 };
}

size_t grpc_queue_take(struct grpc_queue *queue, size_t limit, struct grpc_range *ret)
{
	struct grpc_body *body = queue->first;
	struct grpc_position end = body->taken;

	*ret = (struct grpc_range){ .body = body, .at = body->taken };
	ret->size = body_move(body, &end, limit);
	body->n_holds++;
	grpc_queue_advance(queue, ret->size);
	return ret->size;
}

size_t grpc_range_peek(const struct grpc_range *range, struct iovec *iov, size_t *n_iov)
{
	return body_peek(range->body, range->at, range->size, iov, n_iov);
}

void grpc_range_advance(struct grpc_range *range, size_t size)
{
	body_move(range->body, &range->at, size);
	range->size -= size;
	body_release_before(range->body, &range->at);
	if (range->size)
		return;
	range->body->n_holds--;
	body_settle(range->body);
	range->body = NULL;
}

void grpc_range_drop(struct grpc_range *range)
{
	range->body->n_holds--;
	body_settle(range->body);
	range->body = NULL;
}
