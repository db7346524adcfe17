/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the time of a request went: the one table of phases, in the order of Phase in
 * control.proto. The enum, the texts and everything that shows phases are generated from it or
 * iterate over it. Each moment of a request is in exactly one phase:
 *
 *   ACCEPT_QUEUE       its first byte is there, and its connection is not accepted yet
 *   READ               from the time when its first byte is being read until its last byte is read
 *   DECODE             from then until its first run begins, on the thread of that run
 *   QUEUE              no thread works on it: its bytes wait to be read, or it waits for a thread
 *   BATCH              it waits in a batch that is not being processed yet
 *   EXECUTE_RUNNING    execution, on a CPU
 *   EXECUTE_RUNNABLE   execution: the thread that it waits for is waiting for a CPU
 *   EXECUTE_THROTTLED  execution: the cgroup of the thread that it waits for has used up its quota
 *   EXECUTE_BLOCKED    execution: the thread that it waits for is waiting for something else
 *   EXECUTE            execution, where the capture has no scheduler records
 *   HANDLER            between two of its runs, on their thread: the handler's own work
 *   ENCODE             from the end of its last run until its first byte is sent
 *   WRITE              from then until the call that writes its last byte returns
 *   SEND_HELD          from then until that byte has left the socket, if it had not yet
 */
#pragma once

/* Identifier as in control.proto, key in JSON, label for display, the stage that the phase is part
 * of, and the name of that stage. */
#define PHASE_TABLE(X)                                                                             \
	X(ACCEPT_QUEUE, "accept_queue", "accept queue", ACCEPT_QUEUE, "accept queue")              \
	X(READ, "read", "read", READ, "read")                                                      \
	X(DECODE, "decode", "decode", DECODE, "decode")                                            \
	X(QUEUE, "queue", "queue wait", QUEUE, "queue wait")                                       \
	X(BATCH, "batch", "batch wait", BATCH, "batch wait")                                       \
	X(EXECUTE_RUNNING, "execute_running", "execute: running", EXECUTE, "execute")              \
	X(EXECUTE_RUNNABLE, "execute_runnable", "execute: waiting for a CPU", EXECUTE, "execute")  \
	X(EXECUTE_THROTTLED, "execute_throttled", "execute: throttled", EXECUTE, "execute")        \
	X(EXECUTE_BLOCKED, "execute_blocked", "execute: blocked", EXECUTE, "execute")              \
	X(EXECUTE, "execute", "execute (not divided)", EXECUTE, "execute")                         \
	X(HANDLER, "handler", "handler", HANDLER, "handler")                                       \
	X(ENCODE, "encode", "encode", ENCODE, "encode")                                            \
	X(WRITE, "write", "write", WRITE, "write")                                                 \
	X(SEND_HELD, "send_held", "send held", SEND_HELD, "send held")                             \
	X(UNKNOWN, "unknown", "unknown", UNKNOWN, "unknown")

#define PHASE_ID(id, key, label, stage, stage_name) PHASE_##id,
enum phase { PHASE_TABLE(PHASE_ID) PHASE_COUNT };
#undef PHASE_ID

struct phase_text {
	const char *key, *label;
	enum phase stage;
	const char *stage_name;
};

/* Indexed by phase. */
extern const struct phase_text phase_texts[PHASE_COUNT];
