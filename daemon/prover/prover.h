/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The role that reads the ELF files of targets. It has no privilege, and the front cannot reach it:
 * it answers the broker only. Each file is read by a process of its own under the strictest
 * seccomp filter, so that a hostile file that takes over its process can falsify its own plan and
 * nothing else.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/sandbox/user.h"

/* A request, over a SOCK_SEQPACKET pair, with these descriptors in this order. */
enum prover_fd {
	PROVER_FILE,  /* of the target, read only */
	PROVER_PROOF, /* an empty file in memory for the result (daemon/plan/proof.h) */
	PROVER_LINE,  /* SOCK_SEQPACKET: for struct prover_answer; its end is the end of the work */
	PROVER_FDS,
	/* If the request has the bit: an earlier plan of the file (daemon/plan/stored.h), and an
	 * empty file for the new one. */
	PROVER_STORED = PROVER_FDS,
	PROVER_NEW_STORED,
	/* Likewise: places in the file, whose functions are to be named, or whose unwind rows are
	 * wanted, instead of a plan (lib/elf/functions.h, unwind_rows.h); the answers replace the
	 * proof. */
	PROVER_QUESTIONS,
	PROVER_FDS_MAX,
};

struct prover_request {
	uint64_t packs;  /* bits, as pack_set_get() */
	uint32_t wanted; /* enum plan_wanted */
	uint32_t fds;    /* a bit for each descriptor that is passed */
};

enum prover_answer_type {
	/* text: the build-id whose debug file is wanted. The broker answers with struct
	 * prover_debug. */
	PROVER_DEBUG,
	PROVER_DONE, /* result; text: the reason of a failure */
};

struct prover_answer {
	uint32_t type;
	int32_t result; /* 0, or a negative errno */
	uint32_t known; /* the stored plan was used */
	int32_t stored; /* 0, or why the new plan could not be written for later: a negative errno
			 */
	char text[96];
};

struct prover_debug {
	uint32_t found; /* the descriptor is passed */
};

/* CPU time and time that one file may take, and memory. */
#define PROVER_CPU_SECONDS 20
#define PROVER_SECONDS 60
#define PROVER_DATA_BYTES (768u << 20)

/* Drops all privileges, becomes the user, and serves until the socket's other end is closed. 0 or
 * -errno. */
int prover_run(int socket, const struct sandbox_user *user);
