/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a flight recorder keeps: the last records, and what they refer to. A view is the state at
 * one moment; any part of it can be correlated, in another thread. Pure.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "daemon/record/sink.h"
#include "daemon/timeline/filter.h"
#include "daemon/timeline/timeline.h"

struct flight;
struct flight_view;

/* bytes: of the records, including an eighth for what they refer to; last_ns: older records may be
 * dropped. -ENOMEM. */
int flight_new(uint64_t bytes, uint64_t last_ns, struct flight **ret);
struct flight *flight_free(struct flight *f);
/* The sink for a session; valid as long as the flight. */
const struct record_sink *flight_sink(struct flight *f);
uint64_t flight_bytes(const struct flight *f);
/* The time of the oldest record; UINT64_MAX: there is none. */
uint64_t flight_oldest(const struct flight *f);

/* -ENOMEM. */
int flight_view_new(const struct flight *f, struct flight_view **ret);
/* As flight_oldest(). */
uint64_t flight_view_oldest(const struct flight_view *view);
struct flight_view *flight_view_free(struct flight_view *view);

/* What happened in a window, besides its timeline. */
struct flight_facts {
	uint64_t records;
	uint64_t dropped; /* as far as the number is known */
	/* Names may be missing, for lack of memory. */
	bool lead_in_is_incomplete;
};

/* Passes on what a capture of that time would have recorded. -ENOMEM, or the first error of the
 * sinks. */
int flight_view_read(const struct flight_view *view, uint64_t from, uint64_t to,
		     const struct record_sinks *sinks, struct flight_facts *ret_facts);
/*
 * Makes the timeline of a window, as a capture of that time would have. *ret is to be freed with
 * timeline_free(). It borrows the filter's strings. -ENOMEM.
 */
int flight_view_correlate(const struct flight_view *view, uint64_t from, uint64_t to,
			  uint64_t from_unix_ns, const struct request_filter *filter,
			  struct flight_facts *ret_facts, struct timeline **ret);
