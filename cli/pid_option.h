/* A command line that takes --pid, once, and --json, and nothing else. */
#pragma once

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

/* The input. */
struct pid_option {
	uint32_t pid; /* 0: none was given */
	bool json;
};

/* As PID_MAX_LIMIT of a 64-bit kernel. */
#define PID_MAX 4194304

/* The options are the command's to explain: 'p' and 'j'. */
error_t pid_option_parse(int key, char *text, struct argp_state *state);
