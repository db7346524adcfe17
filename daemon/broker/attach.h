/*
 * The kernel's part of one capture: the loaded programs with rings and control words of their own, and the links that are up only
 * while it runs. Everything goes when it is freed, or when the process that holds it dies: nothing is pinned.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/broker/limits.h"

struct attachment;

/* How uprobes are attached here. */
enum attach_mode {
	ATTACH_MULTI,	   /* one link for many sites, in one process only, gone in some 30 ms */
	ATTACH_PERF_EVENT, /* one perf event per site, gone in some 100 ms each: kernels before 6.6 */
};

/* What this kernel can do; needs CAP_BPF and CAP_PERFMON. A negative errno when it can do neither. */
int attach_mode_find(void);

/*
 * Loads the programs, for a capture at this level. Nothing is attached. ret_reason: what failed, a constant string.
 * Errors: -EPERM, -ENOMEM, and what bpf(2) returns.
 */
int attachment_new(enum attach_mode mode, unsigned level, struct attachment **ret, const char **ret_reason);
/* Detaches and unloads. */
struct attachment *attachment_free(struct attachment *a);

/* Descriptors to map: control words, counters, rings; all owned by the attachment. Returns how many, at most BROKER_MAX_FDS. */
unsigned attachment_fds(const struct attachment *a, int ret_fds[BROKER_MAX_FDS]);

/* Adds a process whose scheduling and threads are recorded. -E2BIG beyond RECORD_MAX_TARGETS. */
int attachment_add_target(struct attachment *a, pid_t pid);
/* Adds a site; file is borrowed until attachment_attach. -E2BIG beyond BROKER_MAX_SITES. */
int attachment_add_site(struct attachment *a, pid_t pid, int file, uint64_t offset, uint64_t cookie);
/* A process has ended: its sites are left out, and what was attached by its number goes. */
void attachment_forget(struct attachment *a, pid_t pid);
/* Attaches every site that was added since the last call and, the first time, the scheduler programs. A process that ends meanwhile is no error. */
int attachment_attach(struct attachment *a, const char **ret_reason);
/* Whether sites were added that lie in the file with this descriptor. */
bool attachment_uses(const struct attachment *a, int file);
unsigned attachment_links(const struct attachment *a);
/* Puts a record of every living thread of the targets into the rings. */
int attachment_name_threads(struct attachment *a);
