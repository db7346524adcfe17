/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The phases of a request, in the order of Phase in control.proto: the one table of their names.
 * What shows phases iterates over it.
 */
#pragma once

/* Identifier as in control.proto, key in JSON, label for people, and the label without how the
 * execution proceeded. */
#define PHASE_TABLE(X)                                                                             \
	X(READ, "read", "read", "read")                                                            \
	X(DECODE, "decode", "decode", "decode")                                                    \
	X(QUEUE, "queue", "queue wait", "queue wait")                                              \
	X(BATCH, "batch", "batch wait", "batch wait")                                              \
	X(EXECUTE_RUNNING, "execute_running", "execute: running", "execute")                       \
	X(EXECUTE_RUNNABLE, "execute_runnable", "execute: waiting for a CPU", "execute")           \
	X(EXECUTE_BLOCKED, "execute_blocked", "execute: blocked", "execute")                       \
	X(EXECUTE, "execute", "execute (not divided)", "execute")                                  \
	X(ENCODE, "encode", "encode", "encode")                                                    \
	X(WRITE, "write", "write", "write")                                                        \
	X(UNKNOWN, "unknown", "unknown", "unknown")

#define PHASE_ROW(id, key, label, stage) PHASE_ROW_##id,
enum phase_row { PHASE_TABLE(PHASE_ROW) PHASE_ROWS };
#undef PHASE_ROW

struct phase_text {
	const char *key, *label, *stage;
};

/* By row. */
extern const struct phase_text phase_texts[PHASE_ROWS];
