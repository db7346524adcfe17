/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC's library, which is used for serving beside a runtime: which thread works on which HTTP/2
 * stream. Facts of grpcio 1.66.2, 1.71.0, 1.76.0 and 1.85.1 (x86-64).
 */
#include <stddef.h>

#include "daemon/plan/model.h"

/* HTTP/2 connections of gRPC's library, and an operation on a stream: a closure, a payload, bits
 * (grpc_transport_stream_op_batch). */
#define GRPC_TRANSPORT_CLASS "21grpc_chttp2_transport"
#define GRPC_TRANSPORT "_ZN" GRPC_TRANSPORT_CLASS
#define BATCH_BITS 16

/* The same in Triton 2.51.0, whose older release has a table of functions for each kind of
 * transport: local ones, with the transport as an argument in place of the object. */
#define OLD_INIT_STREAM "_ZL11init_streamP14grpc_transportP11grpc_stream*"
#define OLD_PERFORM_STREAM_OP "_ZL17perform_stream_opP14grpc_transportP11grpc_stream*"

#define INIT_STREAM_ARGUMENTS                                                                      \
	OPEN(STREAM), .action = ACTION_READ, .value = { ARGUMENT_2 }, .value2 = { ARGUMENT_4 },    \
		      .tag = { ARGUMENT_1 }, .min_level = 1
#define STREAM_OP_ARGUMENTS                                                                        \
	POINT(STREAM), .action = ACTION_READ, .value = { ARGUMENT_2 },                             \
		       .value2 = { ARGUMENT_3, 1, BATCH_BITS }, .tag = { ARGUMENT_1 },             \
		       .min_level = 1

static const struct probe_row rows[] = {
	/*
	 * On a server the last argument but one is the stream's number, converted to a pointer.
	 * Python's library has no symbols; the base class's functions are the last ones of the
	 * class's table, in the order SizeOfStream, InitStream, HackyDisable…, PerformStreamOp,
	 * DestroyStream.
	 */
	{ .symbol = GRPC_TRANSPORT "10InitStreamE*",
	  INIT_STREAM_ARGUMENTS,
	  .class_name = GRPC_TRANSPORT_CLASS,
	  .slot_from_end = 4,
	  .any_release = true },
	{ .symbol = GRPC_TRANSPORT "15PerformStreamOpE*",
	  STREAM_OP_ARGUMENTS,
	  .class_name = GRPC_TRANSPORT_CLASS,
	  .slot_from_end = 2,
	  .any_release = true },
	{ .symbol = OLD_INIT_STREAM, INIT_STREAM_ARGUMENTS },
	{ .symbol = OLD_PERFORM_STREAM_OP, STREAM_OP_ARGUMENTS },
};

/* Python has a library of its own. */
static const char *const files[] = { "cygrpc.*.so", NULL };

const struct pack pack_grpc = {
	.name = "gRPC",
	.files = files,
	.everywhere = true,
	.rows = rows,
	.n_rows = sizeof(rows) / sizeof(rows[0]),
	/* grpc_transport_stream_op_batch: send_initial_metadata, send_trailing_metadata,
	 * send_message, cancel_stream. */
	.stream_bits = { .begins = 1u << 0,
			 .ends = 1u << 1,
			 .message = 1u << 2,
			 .aborts = 1u << 6 },
};
