/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about this host, about the daemon's own process, and about a target: gathered here, judged
 * by preflight.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/broker/kernel/attach.h"

/* Of the kernel, found out by trial; 0, or the negative errno of the refusal. */
struct bpf_facts {
	/* Any program; if it is refused, the others are not tried. */
	int program;
	int ring;       /* a ring buffer */
	int cookie;     /* bpf_get_attach_cookie() */
	int loop;       /* bpf_loop() */
	int tracepoint; /* as bpf_tracepoint_find() */
	/* 0: off; -1: unknown, because only CAP_SYS_ADMIN in the first network namespace may read
	 * it. */
	int jit_harden;
};

struct host_facts {
	uint32_t capabilities; /* as capabilities_effective() */
	enum attach_mode mode;
	/* 0, or the negative errno of opening the kernel's type information. */
	int btf;
	/* /proc is that of the daemon's pid namespace. */
	bool proc;
	bool initial_pids; /* the pid namespace is the first one */
	/* /proc is mounted so that users see only their own processes. */
	bool hides_processes;
	/* The kernel is locked down: BPF programs may not read its memory. */
	bool confidential;
	bool integrity;       /* it is locked down against modification */
	bool filtered;        /* a seccomp filter restricts the daemon's system calls */
	bool sideband;        /* the kernel reports processes as they map code */
	int perf_paranoid;    /* -2: unknown */
	int unprivileged_bpf; /* 0: allowed; -1: unknown */
	bool unified_cgroups, tracefs;
	uint64_t max_files, max_locked_bytes;
	struct bpf_facts bpf;
};

/* Tries what a capture needs, except .tracepoint; takes a millisecond. Without the capabilities
 * everything is refused. */
void bpf_facts_find(struct bpf_facts *ret);
/*
 * Whether the kernel describes its scheduler's tracepoints: 0 or a negative errno. Takes about 30
 * ms. A capture does not call it: loading its programs gives the same answer.
 */
int bpf_tracepoint_find(void);
/* Fills in all but .mode, .sideband and .bpf, which the caller knows. */
void host_facts_find(struct host_facts *facts);

struct process_facts {
	/* 0, or why nothing is known: -ESRCH … */
	int error;
	char state; /* as in /proc/PID/stat */
	bool kernel_thread;
	/* Differs from the requested id if that is a thread's. */
	pid_t process;
	/* Its program is not a 64-bit one of this architecture. */
	bool foreign;
	/* 0, or why its mappings cannot be read. */
	int maps;
};

void process_facts_find(pid_t pid, struct process_facts *ret);
