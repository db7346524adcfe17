/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The top of a sampled thread's stack, in which user space finds the callers. Included by record.h.
 */
#pragma once

/* In place of the outermost address: the functions from there on are missing. */
#define RECORD_FRAME_CUT 0

/* Of a thread's stack, and of these those below the stack pointer: functions may use them, and what
 * they pop remains there. */
#define RECORD_COPY_BYTES 16384
#define RECORD_COPY_BELOW 128

/* The registers of a thread in user space, and n_bytes of its stack, which follow. */
struct record_stack_copy {
	struct record head;
	__u64 ip, sp, bp;
	__u32 n_bytes;
	__u32 n_below; /* of these, below sp */
};

_Static_assert(sizeof(struct record_stack_copy) == 48, "stack copy record");
