/* SPDX-License-Identifier: Apache-2.0 */
/* Put before a program's source by the test build: no verifier takes a program that reads at a
 * small number. */
#pragma once

#include "bpf/common.bpf.h"

#define NOWHERE (*(volatile __u64 *)8)
#ifdef REFUSE_SWITCHES
#define bpf_task_pt_regs(task) ((long)NOWHERE + bpf_task_pt_regs(task))
#elif defined(REFUSE_SOCKETS)
#define bpf_skc_to_tcp_sock(sk) (NOWHERE ? bpf_skc_to_tcp_sock(sk) : NULL)
#else
#define window_open(now) window_open((now) + NOWHERE)
#endif
