/*
 * The BPF programs and maps of one capture, loaded and not attached. The first time libbpf loads them: it reads the types of the
 * whole kernel for that, which takes half of the time. What it made of the programs is kept, so that later captures load the same
 * instructions at once. Nothing of it stays in the kernel between captures but the programs' type information.
 */
#pragma once

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
	PROGRAM_COUNT,
};

struct programs {
	int programs[PROGRAM_COUNT];
	int control, targets, counters;
	int rings[RECORD_MAX_RINGS];
	unsigned n_rings;
	int others[4]; /* maps that only the programs use */
};

/* What is kept between captures; for any thread. Zeros at first. */
struct program_cache;
int program_cache_new(struct program_cache **ret);
struct program_cache *program_cache_free(struct program_cache *cache);

/* attach_type: expected of the probe's program; 0: none. ret_reason: a constant. Errors: -EPERM, -ENOMEM, and what bpf(2) returns. */
int programs_load(struct program_cache *cache, int attach_type, struct programs *ret, const char **ret_reason);
void programs_done(struct programs *p);
