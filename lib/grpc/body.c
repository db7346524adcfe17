#include "lib/grpc/body.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

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
	size_t prefix_sent;
	struct piece *pieces;
	size_t n_pieces, n_allocated;
	size_t first;      /* the first piece that is not released */
	size_t first_sent; /* bytes of it */
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
	while (body->first < body->n_pieces)
		piece_release(&body->pieces[body->first++]);
	free(body->pieces);
	free(body);
	return NULL;
}

int grpc_body_add(struct grpc_body *body, const void *bytes, size_t size, void (*release)(void *data), void *data)
{
	if (body->n_pieces == body->n_allocated) {
		size_t n = MAX(4, body->n_allocated * 2);
		struct piece *pieces = reallocarray(body->pieces, n, sizeof(*pieces));

		if (!pieces)
			return -ENOMEM;
		body->pieces = pieces;
		body->n_allocated = n;
	}
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

/* Takes bytes from the front of the message, and returns how many of them it had. */
static size_t body_advance(struct grpc_body *body, size_t size)
{
	size_t n = MIN(size, GRPC_PREFIX_SIZE - body->prefix_sent), taken = n;

	body->prefix_sent += n;
	if (body->prefix_sent < GRPC_PREFIX_SIZE)
		return taken;
	/* Pieces without bytes go with what is before them. */
	while (body->first < body->n_pieces) {
		struct piece *piece = &body->pieces[body->first];

		n = MIN(size - taken, piece->size - body->first_sent);
		body->first_sent += n;
		taken += n;
		if (body->first_sent < piece->size)
			break;
		piece_release(piece);
		body->first++;
		body->first_sent = 0;
	}
	return taken;
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
	return 0;
}

size_t grpc_queue_peek(const struct grpc_queue *queue, size_t limit, struct iovec *iov, size_t *n_iov)
{
	size_t n = 0, total = 0;

	for (const struct grpc_body *body = queue->first; body; body = body->next) {
		size_t sent = body->first_sent;

		if (body->prefix_sent < GRPC_PREFIX_SIZE && n < *n_iov && total < limit) {
			iov[n].iov_base = (void *)(body->prefix + body->prefix_sent);
			iov[n].iov_len = MIN(GRPC_PREFIX_SIZE - body->prefix_sent, limit - total);
			total += iov[n++].iov_len;
		}
		for (size_t i = body->first; i < body->n_pieces && n < *n_iov && total < limit; i++, sent = 0) {
			if (body->pieces[i].size == sent)
				continue;
			iov[n].iov_base = (void *)(body->pieces[i].bytes + sent);
			iov[n].iov_len = MIN(body->pieces[i].size - sent, limit - total);
			total += iov[n++].iov_len;
		}
		if (n == *n_iov || total == limit)
			break;
	}
	*n_iov = n;
	return total;
}

void grpc_queue_advance(struct grpc_queue *queue, size_t size)
{
	while (queue->first && size) {
		struct grpc_body *body = queue->first;
		size_t n = body_advance(body, size);

		size -= n;
		queue->size -= n;
		queue->in_middle = body->prefix_sent < GRPC_PREFIX_SIZE || body->first < body->n_pieces;
		if (queue->in_middle)
			break;
		queue->first = body->next;
		if (!queue->first)
			queue->last = NULL;
		grpc_body_free(body);
	}
}

void grpc_queue_clear(struct grpc_queue *queue)
{
	while (queue->first) {
		struct grpc_body *body = queue->first;

		queue->first = body->next;
		grpc_body_free(body);
	}
	*queue = (struct grpc_queue){ 0 };
}
