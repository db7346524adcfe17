/* SPDX-License-Identifier: Apache-2.0 */
/* The last steps of a timeline's requests; used within this folder only. */
#pragma once

#include "daemon/correlate/losses.h"
#include "daemon/timeline/filter.h"
#include "daemon/timeline/timeline.h"

/*
 * After timeline_finish(): handlers and marks that are part of no request at a socket become
 * requests of their own, and the runs within them are attributed to them. Tasks of batches get
 * their request. Requests are sorted, those that do not pass the filter are marked, and runs are
 * counted by attribution. -ENOMEM.
 */
int requests_finish(struct timeline *t, const struct request_filter *filter,
		    const struct losses *losses);
