/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines. Every option of every command is a row of one table, so that a letter and a name
 * mean the same everywhere; a command names the rows that it accepts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/connect/address.h"
#include "proto/control.pb-c.h"

#define SELECTION_PIDS_MAX 256
/* How often stacks are sampled unless it is given. */
#define STACKS_HZ_DEFAULT 99
/* Enough for the pids in a packed request. */
#define SELECTION_PACKED_MAX (SELECTION_PIDS_MAX * 5 + 16)

/* In the order of the help text. */
enum option_id {
	OPTION_HELP,
	OPTION_VERSION,
	OPTION_DAEMON,
	OPTION_TLS,
	OPTION_CA,
	OPTION_CERTIFICATE,
	OPTION_KEY,
	OPTION_PID,
	OPTION_DURATION,
	OPTION_LAST,
	OPTION_LEVEL,
	OPTION_OPS,
	OPTION_SOCKETS,
	OPTION_MEMORY,
	OPTION_STACKS,
	OPTION_MAX_OVERHEAD,
	OPTION_LOGDIR,
	OPTION_RECORD,
	OPTION_FOLDED,
	OPTION_PPROF,
	OPTION_DEVICE_PLANE,
	OPTION_INPUT_STAGES,
	OPTION_EXPLAIN,
	OPTION_JSON,
	OPTION_REQUESTS,
	OPTION_SLOWEST,
	OPTION_REQUESTS_COUNT,
	OPTION_SLOWER_THAN,
	OPTION_PATH,
	OPTION_MODEL,
	OPTION_COUNT,
};

#define ACCEPT(id) (UINT32_C(1) << OPTION_##id)
/* Which processes are captured, and in how much detail. */
#define ACCEPT_SELECTION                                                                           \
	(ACCEPT(PID) | ACCEPT(LEVEL) | ACCEPT(OPS) | ACCEPT(SOCKETS) | ACCEPT(MEMORY))
/* What is written, and what is printed. */
#define ACCEPT_OUTPUT                                                                              \
	(ACCEPT(LOGDIR) | ACCEPT(DEVICE_PLANE) | ACCEPT(INPUT_STAGES) | ACCEPT(JSON) |             \
	 ACCEPT(REQUESTS) | ACCEPT(SLOWEST))
/* What is written of sampled stacks. */
#define ACCEPT_STACKS (ACCEPT(FOLDED) | ACCEPT(PPROF))
/* Which requests are selected. */
#define ACCEPT_FILTER (ACCEPT(SLOWER_THAN) | ACCEPT(PATH) | ACCEPT(MODEL))

struct selection {
	uint32_t pids[SELECTION_PIDS_MAX]; /* none: every process that the user may profile */
	size_t n_pids;
	uint32_t level;
	bool no_sockets;
	Tfprofd__Memory memory;
	bool ops_at_entry;
	uint32_t stacks_hz; /* 0: not given */
};

/* The formats that are written to files of their own beside the trace. */
enum export_format {
	EXPORT_FOLDED,
	EXPORT_PPROF,
	EXPORT_COUNT,
};

struct output_options {
	const char *logdir;
	const char *exports[EXPORT_COUNT]; /* paths; NULL: not written */
	bool explain;
	bool json;
	struct output_choice {
		bool on;
		/* Given on the command line, as on or as off. */
		bool is_given;
	} device_plane, input_stages;
};

struct request_options {
	const char *file; /* where every request is written; NULL: nowhere */
	uint32_t slowest;
	uint64_t count, slower_than_ns;
	const char *path, *model; /* NULL: any */
};

/* The arguments of a command line; defaults for those not given. */
struct arguments {
	struct daemon_address daemon;
	struct selection selection;
	struct output_options output;
	struct request_options requests;
	uint64_t duration_ns, last_ns; /* 0: not given */
	double max_overhead;           /* percent; 0: no limit */
	const char *record;            /* path; NULL: no recording */
	const char *operand;           /* NULL: none */
};

/* What a command, or tfprofctl itself, accepts. */
struct syntax {
	const char *name;                 /* "tfprofctl capture" */
	uint32_t accepts;                 /* ACCEPT() of each option besides --help */
	const char *pid_help, *last_help; /* NULL: the table's */
	unsigned pids_max;                /* 0: SELECTION_PIDS_MAX */
	/* "FILE.tfp", in brackets if it is optional; NULL: none. */
	const char *operand;
	const char *no_operand; /* the message if it is missing */
	/* What follows the operand is parsed elsewhere. */
	bool is_prefix;
	void (*print_operands)(void); /* lists them in the help text; NULL: nothing to list */
	const char *description;      /* for the help text, like the rest */
	const char *notes;            /* NULL: none */
};

/* The defaults. */
void arguments_init(struct arguments *arguments);
/*
 * Reads a command line from argv[1] on. 0; 1: --help or --version was given, and answered; -EINVAL:
 * explained to the user. *ret_next is the index in argv after what was read.
 */
int arguments_read(const struct syntax *syntax, int argc, char **argv, struct arguments *arguments,
		   int *ret_next);
/* Explains a usage error to the user; returns -EINVAL. */
__attribute__((format(printf, 2, 3))) int arguments_refuse(const struct syntax *syntax,
							   const char *format, ...);
void arguments_print_help(const struct syntax *syntax);
