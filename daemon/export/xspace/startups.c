/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/xspace/startups.h"

#include <stdio.h>
#include <string.h>

#include "daemon/export/xspace/writer.h"
#include "lib/base/macro.h"

/* Ids of lines: below those of counters. */
#define STARTUP_LINE 0x7fff0000

/* The part of a phase that lies in the window. */
struct part {
	const struct startup_phase *phase; /* NULL: it was written */
	uint64_t start_ns, end_ns;
	bool truncated_start, truncated_end;
};

/* False: it lies outside of the window. */
static bool clip_to_window(const struct timeline *t, const struct startup_phase *phase,
			   struct part *ret)
{
	/* If the end is unknown, only the begin is shown. */
	uint64_t end = phase->end_ns ?: phase->goes_on ? UINT64_MAX : phase->start_ns;

	*ret = (struct part){
		.phase = phase,
		.start_ns = MAX(phase->start_ns, t->start_ns),
		.end_ns = MIN(end, t->end_ns),
		.truncated_start = phase->start_ns<t->start_ns, .truncated_end = end> t->end_ns
	};
	return ret->start_ns <= ret->end_ns && end >= t->start_ns;
}

static int compare_parts(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns);
}

static int write_part(struct writer *w, const struct part *part)
{
	const struct startup_phase *phase = part->phase;
	struct stats stats = { .n = 0 };
	char text[STARTUP_PATH_MAX + 48];
	uint32_t name = 0;

	snprintf(text, sizeof(text), "%s%s%s%s", startup_phase_name(phase->kind),
		 *phase->path ? " " : "", phase->path, phase->failed ? " (failed)" : "");
	(void)xspace_event_name(w->xspace, text, NULL, &name);
	if (phase->kind == STARTUP_WARMUP)
		stats_add_int(w, &stats, STAT_RUNS, (int64_t)phase->runs);
	stats_add_truncated(w, &stats, part->truncated_start, part->truncated_end);
	return writer_event(w, name, part->start_ns, part->end_ns, &stats);
}

/* Writes the parts that are nested in, or follow, one another, since a line is nested. Returns how
 * many are left. */
static int write_line(struct writer *w, struct part *parts, unsigned n, unsigned *left)
{
	uint64_t ends[STARTUP_PHASES_MAX]; /* of what is open */
	unsigned depth = 0;
	int r = 0;

	for (unsigned i = 0; i < n && r >= 0; i++) {
		if (!parts[i].phase)
			continue;
		while (depth && ends[depth - 1] <= parts[i].start_ns)
			depth--;
		if (depth && parts[i].end_ns > ends[depth - 1])
			continue;
		ends[depth++] = parts[i].end_ns;
		r = write_part(w, &parts[i]);
		parts[i].phase = NULL;
		--*left;
	}
	return r;
}

/* Models that are loaded at the same time need several lines. */
static int write_track(struct writer *w, const struct startup_track *track, uint32_t *line)
{
	struct part parts[STARTUP_PHASES_MAX];
	unsigned n = 0, left;
	char name[48];
	int r = 0;

	for (unsigned i = 0; i < track->n; i++)
		n += clip_to_window(w->timeline, &track->phases[i], &parts[n]);
	qsort(parts, n, sizeof(parts[0]), compare_parts);
	snprintf(name, sizeof(name), "lifecycle of %u", track->pid);
	for (left = n; left && r >= 0; ++*line) {
		r = writer_line_begin(
			w, &(struct xspace_line){ .id = STARTUP_LINE + *line, .name = name });
		if (r >= 0)
			r = write_line(w, parts, n, &left);
		if (r >= 0)
			r = xspace_line_end(w->xspace);
	}
	return r;
}

int startups_write(struct writer *w, const struct startups *s)
{
	uint32_t line = 0;
	int r = 0;

	for (size_t i = 0; s && i < s->n && r >= 0; i++)
		r = write_track(w, &s->list[i], &line);
	return r;
}
