/* SPDX-License-Identifier: Apache-2.0 */
/* Which BPF programs there are, and the set of programs and maps of one capture, loaded and not
 * attached. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "daemon/plan/model.h"
#include "include/record_types.h"

enum program {
	PROGRAM_PROBE,
	PROGRAM_EXIT,
	PROGRAM_EXEC,
	PROGRAM_FORK,
	PROGRAM_NAME_THREADS,
	PROGRAM_SWITCH,
	PROGRAM_WAKING,
	PROGRAM_WAKEUP_NEW,
	PROGRAM_SYS_ENTER,
	PROGRAM_SYS_EXIT,
	PROGRAM_FIND_LISTENERS,
	PROGRAM_DATA_READY,
	PROGRAM_SEGMENT,
	PROGRAM_COUNT,
};

struct program_facts {
	const char *name;
	/* Of a capture that does not want this kind the program is no part; without the program the
	 * kind is left out. KIND_COUNT: no capture without it. */
	enum probe_kind kind;
	bool is_tracepoint;  /* it is attached where its section says */
	bool is_extra;       /* the others of its kind do without it */
	const char *needs;   /* the tracepoint, where not every kernel has it */
	enum program unless; /* that one is there; PROGRAM_COUNT: always wanted */
};
extern const struct program_facts program_facts[PROGRAM_COUNT];

/* Kinds as a bit mask: those that have programs of their own. */
#define KIND_BIT(kind) (1u << (kind))
#define PROGRAM_KINDS (KIND_BIT(KIND_SWITCHES) | KIND_BIT(KIND_SOCKETS))

struct programs {
	int programs[PROGRAM_COUNT];
	int control, targets, counters;
	int rings[RECORD_MAX_RINGS];
	unsigned n_rings;
	int others[10]; /* maps that only the programs use */
	unsigned kinds; /* whose programs are there */
};

/* A set of nothing; negative descriptors are none. */
void programs_init(struct programs *p);
void programs_done(struct programs *p);
/* Puts a map where its users look for it; the descriptor is the set's from now on. -E2BIG. */
int programs_take_map(struct programs *p, const char *name, int fd);
/* Whether only the programs that follow sockets use the map. */
bool program_map_is_for_sockets(const char *name);
/* Whether a capture of these kinds has the program. */
bool program_is_of_kinds(enum program program, unsigned kinds);
