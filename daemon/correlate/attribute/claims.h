/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests wait for a run, and which run is of which request. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "include/record_types.h"

struct correlator;

/* Requests that were read and have no run yet. */
struct waiting {
	uint32_t first, n;
};

/* Zeros at first. */
struct claims {
	struct claim *list; /* beside the requests */
	uint64_t size;
	struct waiting waiting[RECORD_MAX_TARGETS]; /* by process */
};

/* The run is of that request, or inferred to be. */
void claims_add(struct correlator *c, uint64_t span, uint32_t request, bool inferred);
/* Whether it can be: the request was read before the run began, and its answer began after that. */
bool claims_can_be_of(struct correlator *c, uint64_t span, uint32_t request);
/* The run has no request any more. */
void claims_remove(struct correlator *c, uint64_t span);
/* The same, of the latest run of the request, if that is inferred. */
void claims_remove_inferred(struct correlator *c, uint32_t request);
/* Whether the run is the latest one that was added to its request. */
bool claims_is_last(const struct correlator *c, uint64_t span);
/* Whether some run of the request is inferred. */
bool claims_has_inferred(const struct correlator *c, uint32_t request);
/* The runs of the request are known by the object that gRPC's library has for its stream, by
 * contexts, or as they were handed over. */
void claims_note_stream(struct correlator *c, uint32_t request);
bool claims_is_by_stream(const struct correlator *c, uint32_t request);
/* The request was read, and waits for a run. */
void claims_wait(struct correlator *c, uint32_t request);
void claims_stop_waiting(struct correlator *c, uint32_t request);
/* The only request of the process that waits for a run; NO_REQUEST: none does, or several do. */
uint32_t claims_only_waiting(const struct correlator *c, uint32_t process);
void claims_done(struct claims *claims);
