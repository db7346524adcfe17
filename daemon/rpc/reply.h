/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: messages, errors, and messages with a trace, whose chunks are not copied. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "daemon/export/exporter.h"
#include "lib/grpc/body.h"
#include "lib/grpc/server.h"

/* A body that is one packed message. -ENOMEM. */
int reply_message(const ProtobufCMessage *message, struct grpc_body **ret);

/*
 * A body that is a message with this one field of bytes, which stay where they are until
 * release(data) is called; on -ENOMEM it is called before this returns.
 */
int reply_bytes(unsigned field, const void *bytes, size_t size, void (*release)(void *data),
		void *data, struct grpc_body **ret);

/*
 * A body with a trace as a bytes field (number field), inside the message of field outer (0: at the
 * top). prefix: encoded fields before the trace in the same message. The body takes ownership of
 * the trace's memory, and *trace is then empty; on -ENOMEM too.
 */
int reply_trace(struct exported *trace, unsigned outer, unsigned field, const void *prefix,
		size_t prefix_size, struct grpc_body **ret);

/* The fields of the message that a piece of a trace is sent in. */
struct piece_fields {
	unsigned bytes, total; /* the piece, and the size of the whole */
	unsigned number;       /* 0: none */
	uint64_t number_value;
};

/* Sends a trace in pieces, each in a message. The call takes ownership of its memory, on failure
 * too: -ENOMEM, -ECANCELED. */
int reply_send_trace(struct grpc_call *call, struct exported *trace,
		     const struct piece_fields *fields);

/* Answers a call with a message, or with an error if there is no memory for it. */
void reply_answer(struct grpc_call *call, const ProtobufCMessage *message);
/* The status for a negative errno of a capture. */
enum grpc_status reply_status_of(int error);
