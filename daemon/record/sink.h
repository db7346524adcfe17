/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session records goes to sinks, in order of time: the correlator, a recording's journal,
 * the flight recorder, live counters, the watch over starting processes. A new one implements
 * struct record_sink and is added to the sinks of its session.
 */
#pragma once

#include <stdint.h>

#include "daemon/plan/detail.h"
#include "include/record_types.h"

struct correlate_target; /* of daemon/correlate/correlate.h */

/* Each function may be NULL if the sink does not need it. They return 0 or -errno, which ends the
 * call for the sinks after it. */
struct record_sink {
	/* The window opens; the first call. */
	int (*begin)(uint64_t start_ns, void *data);
	/* A target, which gets the next number from 0. */
	int (*target)(const struct correlate_target *target, void *data);
	/* Where the objects of a target keep their names; named: of which of its packs. */
	int (*layout)(unsigned target, unsigned named, const struct record_layout *layout,
		      void *data);
	/* From that time on nothing of a kind is recorded; text: the reason. */
	int (*shed)(enum probe_kind kind, uint64_t time, const char *text, void *data);
	/* A kind that was shed is recorded again from that time on. */
	int (*resume)(enum probe_kind kind, uint64_t time, void *data);
	/* Records of that time were lost; n: how many, as far as known. */
	int (*loss)(uint64_t from, uint64_t to, uint64_t n, void *data);
	/* Before the first record: one from before the window that later ones refer to. */
	int (*recall)(const struct record *record, void *data);
	int (*record)(const struct record *record, void *data);
	void *data;
};

#define RECORD_SINKS_MAX 4

struct record_sinks {
	const struct record_sink *list[RECORD_SINKS_MAX]; /* borrowed */
	unsigned n;
};

void sinks_add(struct record_sinks *sinks, const struct record_sink *sink);

/* Each calls the sinks in their order, until one fails. */
int sinks_begin(const struct record_sinks *sinks, uint64_t start_ns);
int sinks_target(const struct record_sinks *sinks, const struct correlate_target *target);
int sinks_layout(const struct record_sinks *sinks, unsigned target, unsigned named,
		 const struct record_layout *layout);
int sinks_shed(const struct record_sinks *sinks, enum probe_kind kind, uint64_t time,
	       const char *text);
int sinks_resume(const struct record_sinks *sinks, enum probe_kind kind, uint64_t time);
int sinks_loss(const struct record_sinks *sinks, uint64_t from, uint64_t to, uint64_t n);
int sinks_recall(const struct record_sinks *sinks, const struct record *record);
int sinks_record(const struct record_sinks *sinks, const struct record *record);
