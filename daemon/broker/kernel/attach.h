/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's part of one capture: the loaded programs with rings and control words of their own,
 * and the links that exist only while it runs. Everything disappears when it is freed, or when the
 * process that holds it dies: nothing is pinned.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/broker/limits.h"
#include "daemon/broker/message.h"
#include "daemon/plan/detail.h"
#include "include/record_types.h"

struct attachment;
struct program_cache;

/* Finds out how this kernel can attach uprobes; needs CAP_BPF and CAP_PERFMON. A negative errno if
 * it can in no way. */
int attach_mode_find(void);

/* Loads the programs, including those of the kinds (bits, as programs_load()); nothing is attached.
 * stacks_hz: how often KIND_STACKS samples a CPU. state: the directory for site_log.h, -1: none.
 * Errors and ret_reason as programs_load(). */
int attachment_new(enum attach_mode mode, unsigned kinds, unsigned stacks_hz,
		   struct program_cache *cache, int state, struct attachment **ret,
		   char *ret_reason, size_t size);
/* The kinds that the kernel accepts. */
unsigned attachment_kinds(const struct attachment *a);
/* Whether sockets are followed at system calls, as the kernel has no tracepoints at sockets. */
bool attachment_slows_every_call(const struct attachment *a);
/* Detaches and unloads. */
struct attachment *attachment_free(struct attachment *a);
/* The arguments of programs_make_ready() for another attachment like this one. */
struct attachment_form {
	struct program_cache *cache;
	int attach_type;
	unsigned kinds;
};
struct attachment_form attachment_form(const struct attachment *a);

/* Descriptors to map: control words, counters, rings, the last of which is the spare one; all owned
 * by the attachment. Returns their number, at most BROKER_MAX_FDS. */
unsigned attachment_fds(const struct attachment *a, int ret_fds[BROKER_MAX_FDS]);

/* Before the first target is added: threads of every user that share its CPUs are shown by id and
 * name; otherwise only the kernel's and those of the target's user are. */
void attachment_show_all_users(struct attachment *a);
/*
 * Adds a process whose scheduling, threads and sockets are recorded; it gets the next number, from
 * 0. A process that was added before gets a new number, and its previous one is no longer used.
 * alive_ns: a time (CLOCK_MONOTONIC) at which that process had the pid and had not ended: nothing
 * of a later process with this pid is recorded. -E2BIG beyond RECORD_MAX_TARGETS.
 */
int attachment_add_target(struct attachment *a, pid_t pid, uint64_t alive_ns);

/* An instruction of a file, to be probed in one process. */
struct attach_site {
	pid_t pid;
	int file; /* borrowed until attachment_attach(), and for attachment_resume() */
	uint64_t offset, cookie;
	/* Offset of a counter that the kernel increments in the process while the probe is
	 * attached; 0: none. */
	uint64_t semaphore;
	enum probe_kind kind;
};

/* -E2BIG beyond BROKER_MAX_SITES, or BROKER_MAX_PERF_EVENTS if probes are perf events. */
int attachment_add_site(struct attachment *a, const struct attach_site *site);
/*
 * Puts the number of a path into a cookie that has COOKIE_PATH. -EINVAL: the path is none, or the
 * cookie has a number already; -E2BIG beyond RECORD_PATHS, and what the kernel returns.
 */
int attachment_add_path(struct attachment *a, const struct record_path *path, uint64_t *cookie);
/* Samples of the target with this index show the functions of its interpreter's scripts. Of several
 * the first one counts: the program's own comes before one in a library that it does not use.
 * -errno of the kernel; -EOPNOTSUPP: stacks are not sampled, or without them. */
int attachment_add_interpreter(struct attachment *a, unsigned target,
			       const struct record_interpreter *interpreter);
struct detached;
/* Processes for which the kernel refused something. */
struct refused {
	unsigned n;
	pid_t pids[RECORD_MAX_TARGETS];
	/* A bit for each kind that is left out of all processes, because a probe of it was refused
	 * in one. */
	unsigned kinds;
	/* Of these kinds, what was already attached; to be freed. */
	struct detached *links[KIND_COUNT];
	unsigned n_links;
};

/*
 * Attaches every site that was added since the last call and, the first time, the scheduler
 * programs. A process that ends meanwhile is not an error; one that is refused is an error only if
 * nothing else is attached.
 */
int attachment_attach(struct attachment *a, struct refused *ret_refused, const char **ret_reason);

/* struct detached: links that were taken out of an attachment; they are detached when they are
 * freed, which takes a while. */
/*
 * A process has ended, or became another program: its pending sites are dropped, and what is
 * attached to it is taken out. watch: its scheduling and threads are still recorded. -ENOMEM.
 */
int attachment_forget(struct attachment *a, pid_t pid, bool watch, struct detached **ret);
/* Takes out everything that is attached of a kind, of which nothing is attached until
 * attachment_resume(). -ENOMEM. */
int attachment_shed(struct attachment *a, enum probe_kind kind, struct detached **ret);
/*
 * Attaches a kind again whose links have been freed since it was shed. If the kernel refuses some
 * of it, the rest is taken out. Does nothing if the kind was not shed. *ret: NULL: nothing.
 * -EOPNOTSUPP if probes are perf events.
 */
int attachment_resume(struct attachment *a, enum probe_kind kind, struct detached **ret);
struct detached *detached_free(struct detached *d);

unsigned attachment_links(const struct attachment *a);
/* counts_skipped() of its programs. */
uint64_t attachment_skipped(const struct attachment *a);
/* Puts a record of every living thread of the targets into the rings. */
int attachment_name_threads(struct attachment *a);
