/* SPDX-License-Identifier: Apache-2.0 */
/* A correlator as a sink of a session: the records become a timeline. */
#pragma once

#include "daemon/correlate/correlate.h"
#include "daemon/record/sink.h"
#include "daemon/timeline/filter.h"
#include "daemon/timeline/timeline.h"

struct correlation;

/* The strings of the filter must live as long. finished may be NULL. -ENOMEM. */
int correlation_new(const struct request_filter *filter, correlator_finished_fn finished,
		    void *data, struct correlation **ret);
struct correlation *correlation_free(struct correlation *c);
const struct record_sink *correlation_sink(const struct correlation *c);
/* Requests that have finished so far and pass the filter. */
uint64_t correlation_n_finished(const struct correlation *c);
/* Call once, after the last record. *ret is to be freed with timeline_free(). -ENOMEM. */
int correlation_finish(struct correlation *c, uint64_t stop, uint64_t start_unix_ns,
		       struct timeline **ret);
