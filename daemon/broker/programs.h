/*
 * The BPF programs and maps of one capture, loaded and not attached. The first time libbpf loads them: it reads the types of the
 * whole kernel for that, which takes half of the time. What it made of the programs is kept, so that later captures load the same
 * instructions at once. Nothing of it stays in the kernel between captures but the programs' type information.
 */
#pragma once

#include <stdbool.h>

#include "include/record_types.h"

enum program {
	PROGRAM_PROBE,
	PROGRAM_EXIT,
	PROGRAM_EXEC,
	PROGRAM_FORK,
	PROGRAM_SWITCH,
	PROGRAM_WAKING,
	PROGRAM_WAKEUP_NEW,
	PROGRAM_NAME_THREADS,
	/* Those that follow the messages at sockets. */
	PROGRAM_SYS_ENTER,
	PROGRAM_SYS_EXIT,
	PROGRAM_DATA_READY, /* not there on a kernel without its tracepoint (before 6.3) */
	PROGRAM_FIND_LISTENERS,
	PROGRAM_COUNT,
};
#define PROGRAM_SOCKETS PROGRAM_SYS_ENTER /* the first of them */

struct programs {
	int programs[PROGRAM_COUNT];
	int control, targets, counters;
	int rings[RECORD_MAX_RINGS];
	unsigned n_rings;
	int others[10]; /* maps that only the programs use */
	bool sockets;	/* the programs that follow sockets are there */
};

/* What is kept between captures; for any thread. Zeros at first. */
struct program_cache;
int program_cache_new(struct program_cache **ret);
struct program_cache *program_cache_free(struct program_cache *cache);

/*
 * attach_type: expected of the probe's program; 0: none. sockets: whether those that follow sockets are wanted, too; .sockets says whether the
 * kernel took them. ret_reason: a constant. Errors: -EPERM, -ENOMEM, and what bpf(2) returns.
 */
int programs_load(struct program_cache *cache, int attach_type, bool sockets, struct programs *ret, const char **ret_reason);
void programs_done(struct programs *p);
