/* SPDX-License-Identifier: Apache-2.0 */
/* Processes as they are named on command lines; and a command line that takes --pid, once, and
 * --json, and nothing else. */
#pragma once

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

/* The input. */
struct pid_option {
	uint32_t pid; /* 0: none was given */
	bool json;
};

/* argp_error(), which does not return, unless the text is a process id. */
uint32_t pid_take(const char *text, struct argp_state *state);
/* The options are the command's to explain: 'p' and 'j'. */
error_t pid_option_parse(int key, char *text, struct argp_state *state);
