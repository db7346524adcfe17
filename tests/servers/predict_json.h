/* SPDX-License-Identifier: Apache-2.0 */
/* The bodies of TensorFlow Serving's REST predict API: {"instances": …} in, {"predictions": …} out.
 */
#pragma once

#include "tests/servers/model.h"

/*
 * Reads {"instances": [1, 2]} or {"instances": [[1, 2], [3, 4]]} from a string, "instances" being
 * the member asked for; other members are skipped. The caller frees ret->values. Returns 0,
 * -ENOMEM, or -EINVAL with a sentence in *reason.
 */
int predict_json_decode(const char *body, const char *member, const char **reason,
			struct tensor *ret);

/* Writes {"predictions": …}; the caller frees. Returns 0 or -ENOMEM. */
int predict_json_encode(const struct tensor *output, char **ret);
/* Writes {"error": "…"}; the caller frees. Returns 0 or -ENOMEM. */
int predict_json_error(const char *message, char **ret);
