/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the programs the kernel refuses, and why. */
#pragma once

#include "daemon/broker/kernel/programs.h"

/* The kernel's verdict on a program. */
struct program_verdict {
	int error;        /* 0: accepted, or not tried */
	char reason[128]; /* the verifier's last sentence */
	/* Everything that the verifier printed; NULL: nothing. */
	char *log;
};

/*
 * Loads each program by itself and records why the kernel refuses it. Returns the number of refused
 * programs; the verdicts are then to be freed with program_verdicts_done(). -ENOMEM, -EMFILE,
 * -ENFILE, -EAGAIN, -EINTR: there are no verdicts.
 */
int programs_examine(int attach_type, struct program_verdict ret[PROGRAM_COUNT]);
/* Whether this kernel has what the program is attached to. */
bool program_is_supported(enum program program);
/* Loads it and unloads it. ret_figures: the verifier's, as text; NULL: not wanted, as
 * ret_instructions. Returns what libbpf returned. */
int program_load_alone(enum program program, int attach_type, char *ret_figures, size_t size,
		       size_t *ret_instructions);
void program_verdicts_done(struct program_verdict verdicts[PROGRAM_COUNT]);
