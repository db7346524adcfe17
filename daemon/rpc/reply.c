/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/reply.h"

#include <errno.h>
#include <string.h>

#include "lib/base/macro.h"

#define WIRE_TYPE_BYTES 2

static size_t put_varint(uint8_t *to, uint64_t value)
{
	size_t n = 0;

	for (; value >= 0x80; value >>= 7)
		to[n++] = (uint8_t)(value | 0x80);
	to[n++] = (uint8_t)value;
	return n;
}

/* Tag and length of a bytes field or message. */
static size_t put_field(uint8_t *to, unsigned field, uint64_t size)
{
	size_t n = put_varint(to, field << 3 | WIRE_TYPE_BYTES);

	return n + put_varint(to + n, size);
}

int reply_message(const ProtobufCMessage *message, struct grpc_body **ret)
{
	size_t size = protobuf_c_message_get_packed_size(message);
	struct grpc_body *body;
	uint8_t *bytes;
	int r;

	bytes = malloc(MAX(size, (size_t)1));
	if (!bytes)
		return -ENOMEM;
	protobuf_c_message_pack(message, bytes);
	r = grpc_body_new(&body);
	if (r < 0) {
		free(bytes);
		return r;
	}
	r = grpc_body_add_owned(body, bytes, size);
	if (r < 0) {
		grpc_body_free(body);
		return r;
	}
	*ret = body;
	return 0;
}

int reply_bytes(unsigned field, const void *bytes, size_t size, void (*release)(void *data),
		void *data, struct grpc_body **ret)
{
	struct grpc_body *body;
	uint8_t head[16];
	int r;

	r = grpc_body_new(&body);
	if (r < 0) {
		release(data);
		return r;
	}
	r = grpc_body_add_copy(body, head, put_field(head, field, size));
	if (r >= 0)
		r = grpc_body_add(body, bytes, size, release, data);
	if (r < 0) {
		release(data);
		grpc_body_free(body);
		return r;
	}
	*ret = body;
	return 0;
}

static void release_trace(void *data)
{
	exported_done(data);
	free(data);
}

/* The trace's memory is freed as a whole, together with the last chunk. */
static int add_trace(struct grpc_body *body, struct exported *trace)
{
	struct exported *owned = malloc(sizeof(*owned));
	int r = 0;

	if (!owned)
		return -ENOMEM;
	*owned = *trace;
	*trace = (struct exported){};
	for (size_t i = 0; i < owned->n_chunks && r >= 0; i++)
		r = grpc_body_add(body, owned->chunks[i].iov_base, owned->chunks[i].iov_len, NULL,
				  NULL);
	if (r >= 0)
		r = grpc_body_add(body, "", 0, release_trace, owned);
	if (r < 0)
		release_trace(owned);
	return r;
}

int reply_trace(struct exported *trace, unsigned outer, unsigned field, const void *prefix,
		size_t prefix_size, struct grpc_body **ret)
{
	uint8_t head[32], inner_head[16];
	size_t n = 0, inner = put_field(inner_head, field, trace->size);
	struct grpc_body *body;
	int r = grpc_body_new(&body);

	if (r < 0) {
		exported_done(trace);
		return r;
	}
	if (outer)
		n = put_field(head, outer, prefix_size + inner + trace->size);
	r = grpc_body_add_copy(body, head, n);
	if (r >= 0)
		r = grpc_body_add_copy(body, prefix, prefix_size);
	if (r >= 0)
		r = grpc_body_add_copy(body, inner_head, inner);
	if (r >= 0)
		r = add_trace(body, trace);
	exported_done(trace);
	if (r < 0) {
		grpc_body_free(body);
		return r;
	}
	*ret = body;
	return 0;
}

/* Memory that several messages refer to: it is freed with the last of them. */
struct shared {
	struct exported trace;
	unsigned n_holds;
};

static void release_shared(void *data)
{
	struct shared *shared = data;

	if (--shared->n_holds)
		return;
	exported_done(&shared->trace);
	free(shared);
}

static int send_piece(struct grpc_call *call, struct shared *shared, const struct iovec *chunk,
		      const struct piece_fields *fields)
{
	struct grpc_body *body;
	uint8_t head[48];
	size_t n;
	int r = grpc_body_new(&body);

	if (r < 0)
		return r;
	n = put_varint(head, fields->total << 3);
	n += put_varint(head + n, shared->trace.size);
	if (fields->number) {
		n += put_varint(head + n, fields->number << 3);
		n += put_varint(head + n, fields->number_value);
	}
	n += put_field(head + n, fields->bytes, chunk->iov_len);
	r = grpc_body_add_copy(body, head, n);
	if (r >= 0) {
		shared->n_holds++;
		r = grpc_body_add(body, chunk->iov_base, chunk->iov_len, release_shared, shared);
		if (r < 0)
			shared->n_holds--;
	}
	if (r < 0) {
		grpc_body_free(body);
		return r;
	}
	return grpc_call_send(call, body);
}

int reply_send_trace(struct grpc_call *call, struct exported *trace,
		     const struct piece_fields *fields)
{
	struct shared *shared = malloc(sizeof(*shared));
	int r = 0;

	if (!shared) {
		exported_done(trace);
		return -ENOMEM;
	}
	*shared = (struct shared){ .trace = *trace, .n_holds = 1 };
	*trace = (struct exported){};
	for (size_t i = 0; i < shared->trace.n_chunks && r >= 0; i++)
		r = send_piece(call, shared, &shared->trace.chunks[i], fields);
	release_shared(shared);
	return r;
}

void reply_answer(struct grpc_call *call, const ProtobufCMessage *message)
{
	struct grpc_body *body;

	if (reply_message(message, &body) < 0)
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	else
		grpc_call_reply(call, body);
}

enum grpc_status reply_status_of(int error)
{
	switch (-error) {
	case EACCES:
		return GRPC_PERMISSION_DENIED;
	case ESRCH:
	case ENOENT:
		return GRPC_NOT_FOUND;
	case EBUSY:
	case EDQUOT:
	case E2BIG:
	case EFBIG:
	case EMFILE:
	case ENFILE:
	case ENOMEM:
		return GRPC_RESOURCE_EXHAUSTED;
	case EPERM:
	case EOPNOTSUPP:
	case ENOEXEC:
	case EBADMSG:
		return GRPC_FAILED_PRECONDITION;
	case EPIPE:
		return GRPC_UNAVAILABLE;
	case ECANCELED:
		return GRPC_CANCELLED;
	case EINVAL:
		return GRPC_INVALID_ARGUMENT;
	default:
		return GRPC_INTERNAL;
	}
}
