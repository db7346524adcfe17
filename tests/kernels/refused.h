/* SPDX-License-Identifier: Apache-2.0 */
/* Put before a program's source by the test build: no verifier takes a program that reads at a
 * small number. */
#pragma once

#include "bpf/common.bpf.h"

#define NOWHERE (*(volatile __u64 *)8)
#ifdef REFUSE_SWITCHES
#define bpf_task_pt_regs(task) ((long)NOWHERE + bpf_task_pt_regs(task))
#else
#define window_open(now) window_open((now) + NOWHERE)
#endif
