/* SPDX-License-Identifier: Apache-2.0 */
/* What the hits of a session's probes cost its targets, by forecast. Pure. */
#pragma once

#include <stdint.h>

#include "daemon/capture/budget/forecast.h"
#include "daemon/capture/prepare.h"
#include "daemon/plan/detail.h"
#include "include/record.h"

/* Zeros at first, except for forecast. */
struct hits {
	const struct forecast *forecast;
	/* By target. */
	const struct pack_set *packs[RECORD_MAX_TARGETS];
	uint32_t *each_ns[RECORD_MAX_TARGETS]; /* of a hit, by the probes of the packs */
	uint64_t cost_ns[KIND_COUNT];          /* of all records that were counted */
};

/* A target, or more files of it. -ENOMEM. */
int hits_add(struct hits *hits, unsigned target, const struct prepared *prepared);
void hits_count(struct hits *hits, const struct record *record);
void hits_done(struct hits *hits);
