/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/json_option.h"

#include <stdbool.h>

const struct argp_option json_options[] = { { "json", 'j', NULL, 0, "Print one JSON object", 0 },
					    {} };

/* argp_error() does not return. */
error_t json_option_parse(int key, char *text, struct argp_state *state)
{
	bool *json = state->input;

	switch (key) {
	case 'j':
		*json = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s'", text);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}
