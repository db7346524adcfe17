/* SPDX-License-Identifier: Apache-2.0 */
/* Which BPF programs there are, and the set of programs and maps of one capture, loaded and not
 * attached. */
#pragma once

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>

#include "daemon/plan/detail.h"
#include "include/record_types.h"

/*
 * Every BPF program, one row each: its name in bpf/, its kind, its place in the loading order (1:
 * first; the verifier takes longest for those, so that they do not delay the end), and its
 * properties, as fields of struct program_facts.
 */
#define PROGRAMS(X)                                                                                \
	X(PROBE, "probe", KIND_COUNT, 1)                                                           \
	X(EXIT, "on_exit", KIND_COUNT, 10, .is_tracepoint = true)                                  \
	X(EXEC, "on_exec", KIND_COUNT, 11, .is_tracepoint = true)                                  \
	X(FORK, "on_fork", KIND_COUNT, 12, .is_tracepoint = true)                                  \
	X(NAME_THREADS, "name_threads", KIND_COUNT, 15)                                            \
	X(SWITCH, "on_switch", KIND_SWITCHES, 5, .is_tracepoint = true)                            \
	X(WAKING, "on_waking", KIND_SWITCHES, 13, .is_tracepoint = true)                           \
	X(WAKEUP_NEW, "on_wakeup_new", KIND_SWITCHES, 14, .is_tracepoint = true)                   \
	X(SENT, "on_sent", KIND_SOCKETS, 3, .is_tracepoint = true, .needs = "sock_send_length",    \
	  .unless = PROGRAM_COUNT)                                                                 \
	X(RECEIVED, "on_received", KIND_SOCKETS, 2, .is_tracepoint = true, .with = PROGRAM_SENT,   \
	  .needs = "sock_recv_length", .unless = PROGRAM_COUNT)                                    \
	X(SENDING, "on_sending", KIND_SOCKETS, 16, .is_tracepoint = true, .is_extra = true,        \
	  .with = PROGRAM_SENT, .needs = "tcp_sendmsg_locked", .unless = PROGRAM_COUNT)            \
	X(STATE, "on_state", KIND_SOCKETS, 17, .is_tracepoint = true, .with = PROGRAM_SENT)        \
	X(DESTROYED, "on_destroyed", KIND_SOCKETS, 18, .is_tracepoint = true,                      \
	  .with = PROGRAM_SENT)                                                                    \
	X(DEPARTURE, "on_departure", KIND_SOCKETS, 20, .is_tracepoint = true, .is_extra = true,    \
	  .with = PROGRAM_SENT, .needs = "net_dev_start_xmit", .unless = PROGRAM_COUNT)            \
	X(IO_URING, "on_io_uring", KIND_SOCKETS, 19, .is_tracepoint = true, .is_extra = true,      \
	  .with = PROGRAM_SENT, .needs = "io_uring_create", .unless = PROGRAM_COUNT)               \
	X(SYS_ENTER, "on_sys_enter", KIND_SOCKETS, 6, .is_tracepoint = true, .needs = "sys_enter", \
	  .unless = PROGRAM_SENT)                                                                  \
	X(SYS_EXIT, "on_sys_exit", KIND_SOCKETS, 4, .is_tracepoint = true, .needs = "sys_exit",    \
	  .unless = PROGRAM_SENT)                                                                  \
	X(FIND_LISTENERS, "find_listeners", KIND_SOCKETS, 7)                                       \
	X(DATA_READY, "on_data_ready", KIND_SOCKETS, 8, .is_tracepoint = true, .is_extra = true,   \
	  .needs = "sk_data_ready", .unless = PROGRAM_COUNT)                                       \
	X(SEGMENT, "on_segment", KIND_SOCKETS, 9, .is_tracepoint = true, .is_extra = true,         \
	  .needs = "tcp_probe", .unless = PROGRAM_DATA_READY)                                      \
	X(ACCEPTED, "on_accepted", KIND_SOCKETS, 22, .is_tracepoint = true, .is_return = true,     \
	  .is_extra = true, .with = PROGRAM_SENT, .needs = "inet_csk_accept",                      \
	  .unless = PROGRAM_COUNT)                                                                 \
	X(SAMPLE, "on_sample", KIND_STACKS, 21)

enum program {
#define PROGRAM_ID(id, ...) PROGRAM_##id,
	PROGRAMS(PROGRAM_ID)
#undef PROGRAM_ID
		PROGRAM_COUNT,
};

struct program_facts {
	const char *name;
	/* The kind that needs the program: it is loaded only if the kind is wanted, and without it
	 * the kind is left out. KIND_COUNT: every capture needs it. */
	enum probe_kind kind;
	unsigned load_rank;
	bool is_tracepoint; /* attached to what its section name specifies */
	bool is_return;     /* its section names a function, at whose return it runs */
	/* The other programs of its kind work without it. */
	bool is_extra;
	/* Its tracepoint, or function, if not every kernel has it. */
	const char *needs;
	/* The program is not wanted if that one is loaded; PROGRAM_COUNT: always wanted. Only with
	 * .needs. */
	enum program unless;
	/* It is wanted only if that one is loaded, which stands before it. */
	enum program with;
};
extern const struct program_facts program_facts[PROGRAM_COUNT];

/* Kinds as a bit mask: those that have programs of their own. */
#define KIND_BIT(kind) (1u << (kind))
#define PROGRAM_KINDS (KIND_BIT(KIND_SWITCHES) | KIND_BIT(KIND_SOCKETS) | KIND_BIT(KIND_STACKS))

struct programs {
	int programs[PROGRAM_COUNT];
	int control, targets, counters, paths;
	int rings[RECORD_CPU_RINGS], spare_ring;
	unsigned n_rings;
	int others[24]; /* maps that only the programs use */
	unsigned kinds; /* whose programs are loaded */
};

/* An empty set; negative descriptors are none. */
void programs_init(struct programs *p);
void programs_done(struct programs *p);
/* Puts a map where its users look for it; the set then owns the descriptor. -E2BIG. */
int programs_take_map(struct programs *p, const char *name, int fd);
/* Whether a capture of these kinds includes the map: others have no program that uses it. */
bool program_map_is_of_kinds(const char *name, unsigned kinds);
/* Of one that .is_tracepoint. */
enum bpf_attach_type program_attach_type(const struct program_facts *program);
/* All of them, in the order in which they are loaded. */
void programs_load_order(enum program ret[PROGRAM_COUNT]);
/* Whether a capture of these kinds includes the program. */
bool program_is_of_kinds(enum program program, unsigned kinds);
