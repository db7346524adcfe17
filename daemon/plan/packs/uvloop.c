/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uvloop, an event loop of Python on libuv. libuv reads from a connection, and then calls one of
 * these two functions, which enters the connection's context and passes the bytes to the protocol
 * in there. asyncio's own loop reads in the context. Names of 0.23.0, whose wheel has symbols, as
 * those from 0.17.0 on have.
 */
#include <stddef.h>

#include "daemon/plan/model.h"

static const struct probe_row rows[] = {
	{ .symbol = "__pyx_f_6uvloop_4loop___uv_stream_on_read", POINT(CONTEXT), .min_level = 1 },
	{ .symbol = "__pyx_f_6uvloop_4loop___uv_stream_buffered_on_read",
	  POINT(CONTEXT),
	  .min_level = 1 },
};

static const char *const files[] = { "loop.cpython-3*.so", NULL };

const struct pack pack_uvloop = {
	.name = "uvloop",
	.files = files,
	.everywhere = true,
	.rows = rows,
	.n_rows = sizeof(rows) / sizeof(rows[0]),
};
