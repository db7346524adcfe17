/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenSSL's library, through which servers read and write encrypted connections: where the bytes of
 * its caller pass (ssl.h of OpenSSL 3.0 to 3.5).
 *
 * Why its functions may have probes at their returns: they are C, call only C, and return on the
 * stack on which they were called. With SSL_MODE_ASYNC the work moves to a stack of its own, below
 * them: they return first. What the application can put below them are callbacks (of its own BIO,
 * of certificates, of messages), which OpenSSL's manual gives no way to leave but by return: an
 * object that longjmp(), or an exception of C++, was thrown through is not usable any more. Nor may
 * a program switch stacks below them, or cancel a thread in them: docs/requests.md names that.
 */
#include <stddef.h>

#include "daemon/plan/model.h"

/* A function that passes bytes: the connection's object, the bytes, and where their number is
 * stored, if it is not returned. */
#define PASSES(function, call, ...)                                                                \
	{ .symbol = function,                                                                      \
	  OPEN(PLAIN),                                                                             \
	  .action = ACTION_PLAIN,                                                                  \
	  .value = { ARGUMENT_1 },                                                                 \
	  .group = call,                                                                           \
	  .min_level = 1,                                                                          \
	  __VA_ARGS__ },                                                                           \
	{                                                                                          \
		.symbol = function, CLOSE(PLAIN), .action = ACTION_PLAIN, .at_return = true,       \
		.min_level = 1                                                                     \
	}

#define ENDS(function, call)                                                                       \
	{                                                                                          \
		.symbol = function, FREE(PLAIN), .action = ACTION_PLAIN, .value = { ARGUMENT_1 },  \
		.group = call, .min_level = 1                                                      \
	}

/* SSL_peek() passes the same bytes again; SSL_read_early_data() and SSL_write_early_data() call
 * these. */
static const struct probe_row rows[] = {
	PASSES("SSL_read", PLAIN_READ, .tag = { ARGUMENT_2 }),
	PASSES("SSL_read_ex", PLAIN_READ, .tag = { ARGUMENT_2 }, .value2 = { ARGUMENT_4 }),
	PASSES("SSL_write", PLAIN_WRITE, .tag = { ARGUMENT_2 }),
	PASSES("SSL_write_ex", PLAIN_WRITE, .tag = { ARGUMENT_2 }, .value2 = { ARGUMENT_4 }),
	/* From 3.3 on. */
	PASSES("SSL_write_ex2", PLAIN_WRITE, .tag = { ARGUMENT_2 }, .value2 = { ARGUMENT_5 }),
	/* Bytes of a file: only their number is known. */
	PASSES("SSL_sendfile", PLAIN_WRITE),
	ENDS("SSL_shutdown", PLAIN_CLOSE),
	ENDS("SSL_clear", PLAIN_FREE),
	ENDS("SSL_free", PLAIN_FREE),
};

static const char *const files[] = { "libssl.so.3*", "libssl-*.so.3*", NULL };

const struct pack pack_openssl = {
	.name = "OpenSSL",
	.files = files,
	.everywhere = true,
	.rows = rows,
	.n_rows = sizeof(rows) / sizeof(rows[0]),
};
