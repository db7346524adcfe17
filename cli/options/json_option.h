/* SPDX-License-Identifier: Apache-2.0 */
/* A command line that takes --json and nothing else. */
#pragma once

#include <argp.h>

/* The input is a bool. */
extern const struct argp_option json_options[];
error_t json_option_parse(int key, char *text, struct argp_state *state);
