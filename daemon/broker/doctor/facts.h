/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says about this host, about ourselves, and about a process: gathered here, judged
 * by preflight.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/broker/kernel/attach.h"

/* Of the kernel, found out by trying it; 0, or the negative errno of the refusal. */
struct bpf_facts {
	int program;    /* any; when it is refused the others are not tried */
	int ring;       /* a ring buffer */
	int cookie;     /* bpf_get_attach_cookie() */
	int loop;       /* bpf_loop() */
	int tracepoint; /* as bpf_tracepoint_find() */
	int jit_harden; /* 0: off; -1: not known: told to CAP_SYS_ADMIN only, in the first network
			   namespace */
};

struct host_facts {
	uint32_t capabilities; /* as capabilities_effective() */
	enum attach_mode mode;
	int btf;           /* 0, or the negative errno of opening the kernel's type information */
	bool proc;         /* /proc is that of our pid namespace */
	bool initial_pids; /* it is the first one */
	bool hides_processes; /* /proc is mounted so that users see their own processes only */
	bool confidential;    /* the kernel is locked down so that BPF may read nothing of it */
	bool integrity;       /* it is locked down so that nobody changes it */
	bool filtered;        /* a seccomp filter stands before our system calls */
	bool sideband;        /* processes are seen as they map code */
	int perf_paranoid;    /* -2: not known */
	int unprivileged_bpf; /* 0: allowed; -1: not known */
	bool unified_cgroups, tracefs;
	uint64_t max_files, max_locked_bytes;
	struct bpf_facts bpf;
};

/* Tries what a capture needs, all but .tracepoint; takes a millisecond. Without the capabilities
 * everything is refused. */
void bpf_facts_find(struct bpf_facts *ret);
/*
 * Whether the kernel describes its scheduler's tracepoints: 0 or a negative errno. Takes some 30
 * ms. A capture does not ask: loading its programs tells the same.
 */
int bpf_tracepoint_find(void);
/* All but .mode, .sideband and .bpf, which the caller knows. */
void host_facts_find(struct host_facts *facts);

struct process_facts {
	int error;  /* 0, or why there is nothing to know: -ESRCH … */
	char state; /* as in /proc/PID/stat */
	bool kernel_thread;
	pid_t process; /* another number when the one that was asked for is a thread's */
	bool foreign;  /* its program is not a 64-bit one of this architecture */
	int maps;      /* 0, or why its mappings cannot be read */
};

void process_facts_find(pid_t pid, struct process_facts *ret);
