/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The registers at a probe, as its cookie names them. */
#pragma once

#include "bpf/common.bpf.h"

/* Keeps the reads separate: the verifier refuses an address that is computed from the context. */
#define ARGUMENT(number, field)                                                                    \
	case number: {                                                                             \
		__u64 word_ = regs->field;                                                         \
		asm volatile("" : "+r"(word_));                                                    \
		return word_;                                                                      \
	}

static __always_inline __u64 argument(const struct pt_regs *regs, __u64 number)
{
	switch (number) {
		ARGUMENT(REGISTER_RDI, di)
		ARGUMENT(REGISTER_RSI, si)
		ARGUMENT(REGISTER_RDX, dx)
		ARGUMENT(REGISTER_RCX, cx)
		ARGUMENT(REGISTER_R8, r8)
		ARGUMENT(REGISTER_R9, r9)
		ARGUMENT(REGISTER_RAX, ax)
		ARGUMENT(REGISTER_RBX, bx)
		ARGUMENT(REGISTER_RBP, bp)
		ARGUMENT(REGISTER_R10, r10)
		ARGUMENT(REGISTER_R11, r11)
		ARGUMENT(REGISTER_R12, r12)
		ARGUMENT(REGISTER_R13, r13)
		ARGUMENT(REGISTER_R14, r14)
		ARGUMENT(REGISTER_R15, r15)
	default:
		return 0;
	}
}
