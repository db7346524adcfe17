/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests a capture was asked to show, and after how many of them it ends. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/timeline/timeline.h"

/* Zeros: all requests pass, and only time ends the window. */
struct request_filter {
	uint64_t slower_than_ns; /* latency above it */
	const char *path;        /* a glob (lib/base/glob.h) of the whole path, NULL: any */
	const char *model;       /* the model's name, NULL: any */
	uint64_t count; /* the window ends when this number of passing requests have finished; 0: it
			   does not */
};

/* Whether a request that has finished passes. One with an unknown path or model does not pass a
 * filter on it. */
bool request_filter_passes(const struct request_filter *filter, const struct timeline *t,
			   const struct request *request);
