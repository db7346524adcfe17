/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A correlation: the timeline that is made, and the parts that make it; used within this folder
 * only. The fields of a part are used by the file that is named after it and by no other, which
 * `make lint` checks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/correlate/attribute/answers.h"
#include "daemon/correlate/attribute/attribution.h"
#include "daemon/correlate/attribute/claims.h"
#include "daemon/correlate/attribute/contexts.h"
#include "daemon/correlate/attribute/hand_overs.h"
#include "daemon/correlate/attribute/streams.h"
#include "daemon/correlate/attribute/writers.h"
#include "daemon/correlate/finished.h"
#include "daemon/correlate/http/arrivals.h"
#include "daemon/correlate/http/connections.h"
#include "daemon/correlate/http/hops.h"
#include "daemon/correlate/http/messages.h"
#include "daemon/correlate/http/requests.h"
#include "daemon/correlate/losses.h"
#include "daemon/correlate/runtime/batches.h"
#include "daemon/correlate/runtime/children.h"
#include "daemon/correlate/runtime/handlers.h"
#include "daemon/correlate/runtime/models.h"
#include "daemon/correlate/runtime/objects.h"
#include "daemon/correlate/runtime/ops.h"
#include "daemon/correlate/runtime/runs.h"
#include "daemon/correlate/runtime/switches.h"
#include "daemon/correlate/sched/quotas.h"
#include "daemon/correlate/sched/samples.h"
#include "daemon/correlate/sched/scripts.h"
#include "daemon/correlate/sheds.h"
#include "daemon/correlate/spans.h"
#include "daemon/correlate/targets.h"
#include "daemon/correlate/texts.h"
#include "daemon/correlate/thread_table.h"
#include "daemon/timeline/names.h"

struct correlator {
	uint64_t start_ns, end_ns; /* the window */
	uint64_t now;              /* time of the record at hand */
	struct timeline *t;        /* what is made: each part adds what it finds */
	int error;                 /* the first one; what comes after it is ignored */

	/* The capture. */
	struct targets targets;
	struct sheds sheds;
	size_t gaps_size; /* for how many gaps the timeline has room */
	struct losses losses;
	struct finished finished;
	/* What the timeline consists of. */
	struct names names;
	struct texts texts;
	struct spans spans;
	struct thread_table threads;
	struct sched sched;
	struct quotas quotas;
	struct samples samples;
	struct scripts scripts;
	/* The runtime's functions. */
	struct runs runs;
	struct switches switches;
	struct batches batches;
	struct children children;
	struct handlers handlers;
	struct models models;
	struct objects objects;
	struct ops ops;
	struct label_names label_names;
	struct memory memory;
	/* Sockets. */
	struct messages messages;
	struct connections connections;
	struct requests requests;
	struct arrivals arrivals;
	struct hops hops;
	/* Which request a run works for. */
	struct attributions attributions;
	struct claims claims;
	struct streams streams;
	struct answers answers;
	struct contexts contexts;
	struct writers writers;
	struct hand_overs hand_overs;
};

/* A key for an address or a number of one target: user addresses have 47 bits, and the target keeps
 * equal ones of two processes apart. */
static inline uint64_t target_key(uint64_t value, uint8_t target)
{
	return (value & 0x00ffffffffffffffULL) | (uint64_t)target << 56;
}

/* What is known of the thread with this index; valid until the next call of thread_table_get(). */
static inline struct thread_state *thread_state(struct correlator *c, uint32_t thread)
{
	return &c->threads.states[thread];
}

/* What all parts use; it keeps a failure in .error. */

/* Makes room for need + 1 elements: if *size is not enough, it is doubled. NULL: no memory. */
void *correlator_grow(struct correlator *c, void *array, uint64_t *size, uint64_t need,
		      size_t element);
/* The element with that index of an array, whose pointer is at this address; it grows as needed,
 * by zeros. NULL: no memory. */
void *correlator_element(struct correlator *c, void *array, uint64_t *size, uint64_t index,
			 size_t element);
/* Keeps the first error; r: 0 or -errno. */
void correlator_fail(struct correlator *c, int r);
/* Sets the value of a key; without memory the correlator fails. A new key may find no room. */
void correlator_put(struct correlator *c, struct map *map, uint64_t key, uint64_t value);
/* The index of a name. */
uint32_t correlator_name(struct correlator *c, const char *text);
