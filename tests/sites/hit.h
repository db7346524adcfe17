/* SPDX-License-Identifier: Apache-2.0 */
/* What the BPF program notes each time a probe fires. */
#pragma once

#define HITS_MAX 32768
#define HIT_REGISTERS 16

struct hit {
	__u64 call;                     /* the word at call_address then */
	__u64 function;                 /* the lower half of the cookie */
	__u64 registers[HIT_REGISTERS]; /* in the order of enum record_register */
	__u64 return_address; /* what lies at the stack pointer plus the upper half of the cookie */
};
