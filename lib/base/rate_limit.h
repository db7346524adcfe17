/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits how many messages of a kind are written for a user: a few per interval, and at its end the
 * number of the others. The clock is passed in.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define RATE_LIMIT_BURST 5
#define RATE_LIMIT_INTERVAL_NS 60000000000ull
/* Kinds and users that are distinguished at a time. All others share one more entry, with this
 * user. */
#define RATE_LIMIT_ENTRIES 64
#define RATE_LIMIT_OTHERS UINT32_MAX

struct rate_limit {
	struct rate_entry {
		uint32_t kind, user;
		/* Since when it counts; 0: free. */
		uint64_t since_ns;
		uint32_t written, omitted;
	} entries[RATE_LIMIT_ENTRIES + 1];
};

/* Whether a message of this kind for this user is to be written now; otherwise it is counted. */
bool rate_limit_admit(struct rate_limit *limit, uint32_t kind, uint32_t user, uint64_t now_ns);
/* Ends the intervals that are over, and calls omitted() for each in which messages were not
 * written. all: ends every interval. */
void rate_limit_end(struct rate_limit *limit, uint64_t now_ns, bool all,
		    void (*omitted)(uint32_t kind, uint32_t user, uint32_t n, void *data),
		    void *data);
