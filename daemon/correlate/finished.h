/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that have finished, as they do. */
#pragma once

#include "daemon/correlate/correlate.h"

/* Zeros at first: all requests are shown. */
struct finished {
	struct request_filter filter; /* of those that are shown */
	uint64_t n;                   /* that pass it */
	correlator_finished_fn fn;    /* NULL: nobody is notified */
	void *data;
};

/* Counts a request if its times are complete and it passes the filter. */
void finished_add(struct correlator *c, const struct request *q);
const struct request_filter *finished_filter(const struct correlator *c);
