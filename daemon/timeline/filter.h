/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests a capture was asked to show, and after how many of them it ends. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/timeline/timeline.h"

/* Of zeros it lets all pass, and the window ends by its time alone. */
struct request_filter {
	uint64_t slower_than_ns; /* latency above it */
	const char *path;        /* a glob (lib/base/glob.h) of the whole path, NULL: any */
	const char *model;       /* the model's name, NULL: any */
	uint64_t count; /* the window ends when so many that pass have finished; 0: it does not */
};

/* What a request is to be shown for is known when it has finished; a path or a model that is not
 * known passes no filter for one. */
bool request_filter_passes(const struct request_filter *filter, const struct timeline *t,
			   const struct request *request);
