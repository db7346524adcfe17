/* SPDX-License-Identifier: Apache-2.0 */
/* The last steps of a timeline's requests; used within this folder only. */
#pragma once

#include "daemon/correlate/losses.h"
#include "daemon/timeline/filter.h"
#include "daemon/timeline/timeline.h"

/*
 * After timeline_finish(): handlers and marks that are part of no request at a socket become
 * requests of their own, runs within them theirs; batches learn whose tasks they hold; requests are
 * put in order, those that do not pass the filter marked, and runs counted by how they found
 * theirs. -ENOMEM.
 */
int requests_finish(struct timeline *t, const struct request_filter *filter,
		    const struct losses *losses);
