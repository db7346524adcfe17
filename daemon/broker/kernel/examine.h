/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the programs the kernel refuses, and why. */
#pragma once

#include "daemon/broker/kernel/programs.h"

/* What the kernel said of a program. */
struct program_verdict {
	int error;        /* 0: it takes it, or was not asked */
	char reason[128]; /* the verifier's last sentence */
	char *log;        /* all that was said of it; NULL: nothing */
};

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
