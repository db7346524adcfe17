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
	X(EXIT, "on_exit", KIND_COUNT, 14, .place = PLACE_TRACEPOINT)                              \
	X(EXEC, "on_exec", KIND_COUNT, 15, .place = PLACE_TRACEPOINT)                              \
	X(FORK, "on_fork", KIND_COUNT, 16, .place = PLACE_TRACEPOINT)                              \
	X(NAME_THREADS, "name_threads", KIND_COUNT, 19)                                            \
	X(SWITCH, "on_switch", KIND_SWITCHES, 9, .place = PLACE_TRACEPOINT)                        \
	X(WAKING, "on_waking", KIND_SWITCHES, 17, .place = PLACE_TRACEPOINT)                       \
	X(WAKEUP_NEW, "on_wakeup_new", KIND_SWITCHES, 18, .place = PLACE_TRACEPOINT)               \
	X(SENT, "on_sent", KIND_SOCKETS, 3, .place = PLACE_TRACEPOINT,                             \
	  .needs = "sock_send_length")                                                             \
	X(RECEIVED, "on_received", KIND_SOCKETS, 2, .place = PLACE_TRACEPOINT,                     \
	  .needs = "sock_recv_length", .with = BY_TRACEPOINTS)                                     \
	X(TCP_SENT, "on_tcp_sent", KIND_SOCKETS, 5, .place = PLACE_RETURN, .needs = "tcp_sendmsg", \
	  .unless = BY_TRACEPOINTS)                                                                \
	X(TCP_RECEIVED, "on_tcp_received", KIND_SOCKETS, 4, .place = PLACE_RETURN,                 \
	  .needs = "tcp_recvmsg", .with = BY_FUNCTIONS)                                            \
	X(UNIX_SENT, "on_unix_sent", KIND_SOCKETS, 7, .place = PLACE_RETURN, .is_extra = true,     \
	  .needs = "unix_stream_sendmsg", .with = BY_FUNCTIONS)                                    \
	X(UNIX_RECEIVED, "on_unix_received", KIND_SOCKETS, 6, .place = PLACE_RETURN,               \
	  .is_extra = true, .needs = "unix_stream_recvmsg", .with = BY_FUNCTIONS)                  \
	X(SENDING, "on_sending", KIND_SOCKETS, 20, .place = PLACE_TRACEPOINT, .is_extra = true,    \
	  .needs = "tcp_sendmsg_locked", .with = AT_SOCKETS)                                       \
	X(TCP_SENDING, "on_tcp_sending", KIND_SOCKETS, 27, .place = PLACE_ENTRY, .is_extra = true, \
	  .needs = "tcp_sendmsg", .unless = PROGRAM_BIT(SENDING), .with = AT_SOCKETS)              \
	X(STATE, "on_state", KIND_SOCKETS, 21, .place = PLACE_TRACEPOINT, .with = AT_SOCKETS)      \
	X(DESTROYED, "on_destroyed", KIND_SOCKETS, 22, .place = PLACE_TRACEPOINT,                  \
	  .with = AT_SOCKETS)                                                                      \
	X(DEPARTURE, "on_departure", KIND_SOCKETS, 24, .place = PLACE_TRACEPOINT,                  \
	  .is_extra = true, .needs = "net_dev_start_xmit", .with = AT_SOCKETS)                     \
	X(IO_URING, "on_io_uring", KIND_SOCKETS, 23, .place = PLACE_TRACEPOINT, .is_extra = true,  \
	  .needs = "io_uring_create", .with = AT_SOCKETS)                                          \
	X(SYS_ENTER, "on_sys_enter", KIND_SOCKETS, 10, .place = PLACE_TRACEPOINT,                  \
	  .needs = "sys_enter", .unless = AT_SOCKETS)                                              \
	X(SYS_EXIT, "on_sys_exit", KIND_SOCKETS, 8, .place = PLACE_TRACEPOINT,                     \
	  .needs = "sys_exit", .unless = AT_SOCKETS)                                               \
	X(FIND_LISTENERS, "find_listeners", KIND_SOCKETS, 11)                                      \
	X(DATA_READY, "on_data_ready", KIND_SOCKETS, 12, .place = PLACE_TRACEPOINT,                \
	  .is_extra = true, .needs = "sk_data_ready")                                              \
	X(SEGMENT, "on_segment", KIND_SOCKETS, 13, .place = PLACE_TRACEPOINT, .is_extra = true,    \
	  .needs = "tcp_probe", .unless = PROGRAM_BIT(DATA_READY))                                 \
	X(ACCEPTED, "on_accepted", KIND_SOCKETS, 26, .place = PLACE_RETURN, .is_extra = true,      \
	  .needs = "inet_csk_accept", .with = AT_SOCKETS)                                          \
	X(SAMPLE_SCRIPTS, "on_sample_scripts", KIND_STACKS, 28, .is_extra = true)                  \
	X(SAMPLE, "on_sample", KIND_STACKS, 25, .unless = PROGRAM_BIT(SAMPLE_SCRIPTS))             \
	X(PLAINTEXT, "on_plaintext", KIND_DECRYPTED, 29)

enum program {
#define PROGRAM_ID(id, ...) PROGRAM_##id,
	PROGRAMS(PROGRAM_ID)
#undef PROGRAM_ID
		PROGRAM_COUNT,
};

/* The two ways in which bytes of sockets are followed, unless it is by system calls. */
#define PROGRAM_BIT(id) (1u << PROGRAM_##id)
#define BY_TRACEPOINTS PROGRAM_BIT(SENT)
#define BY_FUNCTIONS PROGRAM_BIT(TCP_SENT)
#define AT_SOCKETS (BY_TRACEPOINTS | BY_FUNCTIONS)
_Static_assert(PROGRAM_COUNT <= 32, "a mask of programs has 32 bits");

/* To what the section name of a program refers, if the program is attached to that. */
enum program_place {
	PLACE_NONE,
	PLACE_TRACEPOINT,
	PLACE_ENTRY, /* of a function of the kernel */
	PLACE_RETURN,
};

struct program_facts {
	const char *name;
	/* The kind that needs the program: it is loaded only if the kind is wanted, and without it
	 * the kind is left out. KIND_COUNT: every capture needs it. */
	enum probe_kind kind;
	unsigned load_rank;
	enum program_place place;
	/* The other programs of its kind work without it. */
	bool is_extra;
	/* Its tracepoint, or function, if not every kernel has it. */
	const char *needs;
	/* Bit masks of programs that stand before it: the program is not wanted if one of those is
	 * loaded (only with .needs), and only if one of these is, unless there are none. */
	uint32_t unless, with;
};
extern const struct program_facts program_facts[PROGRAM_COUNT];

/* Kinds as a bit mask: those that have programs of their own. */
#define KIND_BIT(kind) (1u << (kind))
#define PROGRAM_KINDS                                                                              \
	(KIND_BIT(KIND_SWITCHES) | KIND_BIT(KIND_SOCKETS) | KIND_BIT(KIND_STACKS) |                \
	 KIND_BIT(KIND_DECRYPTED))

struct programs {
	int programs[PROGRAM_COUNT];
	int control, targets, counters, paths;
	int interpreters; /* -1: stacks are not sampled */
	int rings[RECORD_CPU_RINGS], spare_ring;
	unsigned n_rings;
	int others[32]; /* maps that only the programs use */
	unsigned kinds; /* whose programs are loaded */
};

/* An empty set; negative descriptors are none. */
void programs_init(struct programs *p);
void programs_done(struct programs *p);
/* Puts a map where its users look for it; the set then owns the descriptor. -E2BIG. */
int programs_take_map(struct programs *p, const char *name, int fd);
/* Whether a capture of these kinds includes the map: others have no program that uses it. */
bool program_map_is_of_kinds(const char *name, unsigned kinds);
/* Of one that has a .place. */
enum bpf_attach_type program_attach_type(const struct program_facts *program);
/* All of them, in the order in which they are loaded. */
void programs_load_order(enum program ret[PROGRAM_COUNT]);
/* Whether a capture of these kinds includes the program. */
bool program_is_of_kinds(enum program program, unsigned kinds);
