/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: messages, errors, and those that carry a trace: protobuf around the chunks of a trace,
 * which are not copied. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "daemon/export/exporter.h"
#include "lib/grpc/body.h"
#include "lib/grpc/server.h"

/* A body that is one packed message. -ENOMEM. */
int reply_message(const ProtobufCMessage *message, struct grpc_body **ret);

/*
 * A body that is a message with this one field of bytes, which stay where they are until
 * release(data), on -ENOMEM before this returns.
 */
int reply_bytes(unsigned field, const void *bytes, size_t size, void (*release)(void *data),
		void *data, struct grpc_body **ret);

/*
 * A body in which a trace is a bytes field (number field), inside the message of field outer (0:
 * at the top). prefix are fields before the trace in the same message. The trace's memory goes
 * over to the body, and *trace is then empty; on -ENOMEM too.
 */
int reply_trace(struct exported *trace, unsigned outer, unsigned field, const void *prefix,
		size_t prefix_size, struct grpc_body **ret);

/*
 * Sends a trace in pieces, each a message with one of them as the bytes field field and with the
 * size of all as the number total. Its memory goes over to the call; on failure too: -ENOMEM,
 * -ECANCELED.
 */
int reply_send_trace(struct grpc_call *call, struct exported *trace, unsigned field,
		     unsigned total);

/* Answers a call with a message, or with an error where there is no memory for it. */
void reply_answer(struct grpc_call *call, const ProtobufCMessage *message);
/* The status for a negative errno of a capture. */
enum grpc_status reply_status_of(int error);
