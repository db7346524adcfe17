/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The BPF programs and maps of one capture, loaded and not attached. The first time libbpf loads
 * them: it reads the types of the whole kernel for that, which takes half of the time. What it made
 * of the programs is kept, so that later captures load the same instructions at once. Nothing of it
 * stays in the kernel between captures but the programs' type information.
 */
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

/* What the kernel said of a program. */
struct program_verdict {
	int error;        /* 0: it takes it, or was not asked */
	char reason[128]; /* the verifier's last sentence */
	char *log;        /* all that was said of it; NULL: nothing */
};

struct programs {
	int programs[PROGRAM_COUNT];
	int control, targets, counters;
	int rings[RECORD_MAX_RINGS];
	unsigned n_rings;
	int others[10]; /* maps that only the programs use */
	unsigned kinds; /* whose programs are there */
};

/* What is kept between captures; for any thread. Zeros at first. */
struct program_cache;
/* log_directory: where a file with the verifier's words is written when a program is refused; -1:
 * nowhere. Borrowed. */
int program_cache_new(int log_directory, struct program_cache **ret);
struct program_cache *program_cache_free(struct program_cache *cache);

#define PROGRAMS_LOG "refused-programs.log"

/*
 * attach_type: expected of the probe's program; 0: none. kinds: those that are wanted, of
 * PROGRAM_KINDS; .kinds says which of them the kernel takes. ret_reason: what to do about an error,
 * of at most size bytes. -EPERM, -ENOMEM; -EOPNOTSUPP: the kernel refuses a program without which
 * there is no capture; and others of bpf(2).
 */
int programs_load(struct program_cache *cache, int attach_type, unsigned kinds,
		  struct programs *ret, char *ret_reason, size_t size);
void programs_done(struct programs *p);
/* Puts a map where its users look for it; the descriptor is the set's from now on. -E2BIG. */
int programs_take_map(struct programs *p, const char *name, int fd);
/* Whether only the programs that follow sockets use the map. */
bool program_map_is_for_sockets(const char *name);
/* Whether a capture of these kinds has the program. */
bool program_is_of_kinds(enum program program, unsigned kinds);

/* What the kernel said of each program when it refused one of them: *ret is valid while the cache
 * lives. false: it refused none so far. */
bool programs_refused(struct program_cache *cache, const struct program_verdict **ret);

/*
 * Loads each program by itself and says what the kernel has against it. Returns how many it
 * refuses; what is in the verdicts is then to be freed with program_verdicts_done(). -ENOMEM,
 * -EMFILE, -ENFILE, -EAGAIN, -EINTR: there are no verdicts.
 */
int programs_examine(int attach_type, struct program_verdict ret[PROGRAM_COUNT]);
/* Whether this kernel has what the program is attached to. */
bool program_can_be_there(enum program program);
/* Loads it and lets it go. ret_figures: the verifier's, as text; NULL: not wanted, as
 * ret_instructions. Returns what libbpf returned. */
int program_load_alone(enum program program, int attach_type, char *ret_figures, size_t size,
		       size_t *ret_instructions);
void program_verdicts_done(struct program_verdict verdicts[PROGRAM_COUNT]);
