/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timelines as XSpaces, read back with the protobuf-c classes. The sources are included, so that
 * their allocations can be made to fail one by one.
 */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "proto/xplane.pb-c.h"
#include "tests/unit/check.h"

static long allocations_left = -1; /* -1: no limit */

static int allocation_fails(void)
{
	return allocations_left >= 0 && allocations_left-- == 0;
}

static void *test_malloc(size_t size)
{
	return allocation_fails() ? NULL : malloc(size);
}

static void *test_calloc(size_t n, size_t size)
{
	return allocation_fails() ? NULL : calloc(n, size);
}

static void *test_reallocarray(void *p, size_t n, size_t size)
{
	return allocation_fails() ? NULL : reallocarray(p, n, size);
}

#define malloc test_malloc
#define calloc test_calloc
#define reallocarray test_reallocarray
#include "daemon/export/modules.c"
#include "daemon/export/summary/op_category.c"
#include "daemon/export/xspace/counters.c"
#include "daemon/export/xspace/device.c"
#include "daemon/export/xspace/diagnostics.c"
#include "daemon/export/xspace/export.c"
#include "daemon/export/xspace/lanes.c"
#include "daemon/export/xspace/memory.c"
#include "daemon/export/xspace/metadata.c"
#include "daemon/export/xspace/name_table.c"
#include "daemon/export/xspace/startups.c"
#include "daemon/export/xspace/writer.c"
#include "daemon/export/xspace/xspace.c"
#include "lib/base/array.c"
#undef malloc
#undef calloc
#undef reallocarray

typedef Tensorflow__Profiler__XSpace XSpace;
typedef Tensorflow__Profiler__XPlane XPlane;
typedef Tensorflow__Profiler__XLine XLine;
typedef Tensorflow__Profiler__XEvent XEvent;
typedef Tensorflow__Profiler__XStat XStat;

static inline XSpace *export_with(const struct timeline *t, const struct export_options *options)
{
	struct xspace_result result = {};
	uint8_t *bytes, *p;
	XSpace *space;

	CHECK_EQ(export_xspace(t, options, &result), 0);
	p = bytes = malloc(result.size + 1);
	for (size_t i = 0; i < result.n_chunks; i++)
		p = (uint8_t *)memcpy(p, result.chunks[i].iov_base, result.chunks[i].iov_len) +
		    result.chunks[i].iov_len;
	space = tensorflow__profiler__xspace__unpack(NULL, result.size, bytes);
	CHECK(space);
	free(bytes);
	xspace_result_done(&result);
	return space;
}

static inline XSpace *export_at(const struct timeline *t, unsigned int level)
{
	static const char *const errors[] = { "an error" };
	static const struct advice advice = { .texts = { "do this" }, .n = 1 };

	return export_with(t, &(struct export_options){ .level = level,
							.hostname = "host",
							.errors = errors,
							.n_errors = 1,
							.advice = &advice });
}

/* Each allocation fails in turn: no message. Returns the size of the message with enough
 * allocations. */
static inline uint64_t check_allocations_fail(const struct timeline *t,
					      const struct export_options *options, long min,
					      long max)
{
	struct xspace_result result = {};
	uint64_t size;
	long n;
	int r;

	for (n = 0;; n++) {
		allocations_left = n;
		r = export_xspace(t, options, &result);
		if (!r || n > 1000)
			break;
		CHECK_EQ(r, -ENOMEM);
		CHECK(!result.chunks);
	}
	allocations_left = -1;
	CHECK_EQ(r, 0);
	CHECK(n > min && n < max);
	size = result.size;
	xspace_result_done(&result);
	return size;
}

/* Each limit below the message's size: no message. */
static inline void check_limits(const struct timeline *t, struct export_options options,
				uint64_t size)
{
	struct xspace_result untouched = {};

	for (options.max_bytes = 1; options.max_bytes < size; options.max_bytes++)
		CHECK_EQ(export_xspace(t, &options, &untouched), -EFBIG);
	CHECK(!untouched.chunks && !untouched.size);
}

static inline void space_free(XSpace *space)
{
	tensorflow__profiler__xspace__free_unpacked(space, NULL);
}

static inline const XPlane *find_plane(const XSpace *space, const char *name)
{
	for (size_t i = 0; i < space->n_planes; i++)
		if (!strcmp(space->planes[i]->name, name))
			return space->planes[i];
	return NULL;
}

static inline const char *event_name(const XPlane *plane, const XEvent *event)
{
	return plane->event_metadata[event->metadata_id - 1]->value->name;
}

static inline const char *event_display(const XPlane *plane, const XEvent *event)
{
	return plane->event_metadata[event->metadata_id - 1]->value->display_name;
}

static inline const XStat *find_stat(const XPlane *plane, const XEvent *event, const char *name)
{
	for (size_t i = 0; i < event->n_stats; i++)
		if (!strcmp(plane->stat_metadata[event->stats[i]->metadata_id - 1]->value->name,
			    name))
			return event->stats[i];
	return NULL;
}

static inline bool has_int(const XPlane *plane, const XEvent *event, const char *name,
			   int64_t value)
{
	const XStat *stat = find_stat(plane, event, name);

	return stat && stat->value_case == TENSORFLOW__PROFILER__XSTAT__VALUE_INT64_VALUE &&
	       stat->int64_value == value;
}

static inline const char *stat_text(const XPlane *plane, const XEvent *event, const char *name)
{
	const XStat *stat = find_stat(plane, event, name);

	if (!stat || stat->value_case != TENSORFLOW__PROFILER__XSTAT__VALUE_REF_VALUE)
		return NULL;
	return plane->stat_metadata[stat->ref_value - 1]->value->name;
}

static inline bool shows(const XPlane *plane, const char *name)
{
	for (size_t i = 0; i < plane->n_event_metadata; i++)
		if (!strcmp(plane->event_metadata[i]->value->name, name))
			return true;
	return false;
}

static inline const XLine *find_line(const XPlane *plane, const char *name)
{
	for (size_t i = 0; i < plane->n_lines; i++)
		if (!strcmp(plane->lines[i]->name, name))
			return plane->lines[i];
	return NULL;
}

static inline const XEvent *find_event(const XPlane *plane, const XLine *line, const char *name)
{
	for (size_t i = 0; i < line->n_events; i++)
		if (!strcmp(event_name(plane, line->events[i]), name))
			return line->events[i];
	return NULL;
}
