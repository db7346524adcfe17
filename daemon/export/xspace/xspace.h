/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An append-only writer of tensorflow.profiler.XSpace (lib/proto/xplane.proto), the trace format of
 * TensorBoard's Profile plugin. Events are encoded once, straight into the blocks that are sent;
 * beside them there are only tables of names.
 *
 * Order of calls: planes one after the other, in a plane its lines one after the other, in a line
 * its events. Names may be interned whenever their plane is open. hostnames, errors and warnings go
 * between planes.
 *
 * The first error is kept: every later call, xspace_finish() too, returns it and does nothing. A
 * caller may thus check the last call only. Errors of every function: -ENOMEM, -EFBIG (the message
 * would be longer than its limit), -EINVAL (a call out of order).
 *
 * Text that is not UTF-8 would make every reader reject the whole message: each byte that does not
 * fit becomes '?'.
 */
#pragma once

#include <stdint.h>
#include <sys/uio.h>

/* Protobuf readers take messages below 2 GiB; the rest is for the message around this one. */
#define XSPACE_SIZE_MAX ((UINT64_C(1) << 31) - (UINT64_C(1) << 16))
#define XSPACE_EVENT_STATS_MAX 32
#define XSPACE_KIND_STATS_MAX 8

struct xspace;

enum xspace_value {
	XSPACE_INT64,
	XSPACE_UINT64,
	XSPACE_STRING, /* value is what xspace_stat_name() returned for the text */
};

struct xspace_stat {
	uint32_t name; /* from xspace_stat_name() */
	enum xspace_value type;
	uint64_t value;
};

struct xspace_line {
	int64_t id;
	const char *name;
	const char *display_name; /* NULL: none, viewers then show name */
	int64_t display_id;   /* the viewer's sort order, and the identity of its track; 0: none */
	int64_t timestamp_ns; /* what the events' offsets are relative to */
};

/* The encoded message: the chunks one after the other. */
struct xspace_result {
	struct iovec *chunks;
	size_t n_chunks;
	uint64_t size; /* of all chunks */
	uint64_t n_events;
	void *blocks; /* the memory behind the chunks */
};

/* Starts a message of at most max_bytes (0, or more than XSPACE_SIZE_MAX: XSPACE_SIZE_MAX). */
int xspace_new(uint64_t max_bytes, struct xspace **ret);
struct xspace *xspace_free(struct xspace *x);

int xspace_plane_begin(struct xspace *x, int64_t id, const char *name);
int xspace_plane_stat(struct xspace *x, const struct xspace_stat *stat);
int xspace_plane_end(struct xspace *x);

int xspace_line_begin(struct xspace *x, const struct xspace_line *line);
int xspace_line_end(struct xspace *x);

/*
 * The id of an event name, or of a stat name or string, in the open plane; the same text gives the
 * same id, and ids start from 1. The display name (NULL: none) of an event name is the one that it
 * was first interned with. Text is copied.
 */
int xspace_event_name(struct xspace *x, const char *name, const char *display, uint32_t *ret);
int xspace_stat_name(struct xspace *x, const char *name, uint32_t *ret);
/*
 * As xspace_event_name() without a display name, with at most XSPACE_KIND_STATS_MAX stats that all
 * events of that name have: the same text with other stats gives another id.
 */
int xspace_event_kind(struct xspace *x, const char *name, const struct xspace_stat *stats,
		      unsigned int n_stats, uint32_t *ret);

/*
 * Puts an event name of this id into the open plane, which has no others, with one stat of bytes:
 * this is how readers receive data on the whole capture. The bytes are copied.
 */
int xspace_event_bytes(struct xspace *x, uint64_t id, const char *name, uint32_t stat_name,
		       const void *bytes, size_t size);

/*
 * Adds an event to the open line: name is from xspace_event_name() or xspace_event_kind(), offset
 * and duration are picoseconds, and there are at most XSPACE_EVENT_STATS_MAX stats. Readers want a
 * line sorted by offset, longer events first; that is up to the caller.
 */
int xspace_event(struct xspace *x, uint32_t name, uint64_t offset_ps, uint64_t duration_ps,
		 const struct xspace_stat *stats, unsigned int n_stats);

int xspace_hostname(struct xspace *x, const char *text);
int xspace_error(struct xspace *x, const char *text);
int xspace_warning(struct xspace *x, const char *text);

/* Events so far. */
uint64_t xspace_n_events(const struct xspace *x);

/*
 * Ends the message and hands its memory over to ret, which is untouched on failure. Afterwards x
 * can only be freed. The chunks live until xspace_result_done().
 */
int xspace_finish(struct xspace *x, struct xspace_result *ret);

/* Frees a result; one of zeros, or one that was freed before, is accepted. */
void xspace_result_done(struct xspace_result *result);
