/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/xspace/device.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/export/summary/op_category.h"
#include "lib/base/macro.h"

/*
 * A process takes the place of what readers call a program: its id is this number plus the pid,
 * above XLA's ids of modules. So the operations of several processes are distinct, and get no
 * module's name.
 */
#define PROGRAM_BASE 1000000000

/* The line names by which readers find operations. */
#define OPS_LINE_NAME "XLA Ops"
#define LINES_PER_THREAD 8
#define DEPTH_SHIFT 24 /* of a line's id, above those of threads */

/* The id of a name's events, as last used. */
struct op_kind {
	uint32_t id;
	uint32_t process;
};

/*
 * "scope/op" of "scope/op:Type", where op_type() returned the type. Readers count an event of a
 * device twice if its name contains a colon: as an operation of the framework and as one of the
 * device.
 */
static void op_title(const char *name, const char *type, char *buffer, size_t size)
{
	size_t length = MIN(type ? (size_t)(type - 1 - name) : strlen(name), size - 1);

	memcpy(buffer, name, length);
	buffer[length] = 0;
	for (char *p = buffer; *p; p++)
		if (*p == ':')
			*p = ' ';
}

/* Readers identify operations by their program and symbol. Equal names are one operation, as in the
 * table of the host's operations. */
static uint32_t op_kind(struct writer *w, const struct span *s, struct op_kind *known)
{
	static const struct span_name nameless = { .name = (char *)"", .lost = true };
	const struct timeline *t = w->timeline;
	uint32_t process = t->threads[s->thread].process, symbol = 0;
	const struct span_name *n = s->name < t->n_names ? &t->names[s->name] : &nameless;
	struct op_kind *kind = &known[MIN(s->name, t->n_names)];
	struct stats stats = { .n = 0 };
	const char *type;
	char title[512];

	if (kind->id && kind->process == process)
		return kind->id;
	kind->process = process;
	type = op_type(n);
	op_title(n->name, type, title, sizeof(title));
	stats_add_text(w, &stats, STAT_CATEGORY, op_category(type));
	stats_add_int(w, &stats, STAT_PROGRAM, PROGRAM_BASE + (int64_t)t->processes[process].pid);
	(void)xspace_stat_name(w->xspace, n == &nameless ? "" : writer_shown(w, s->name).name,
			       &symbol);
	stats_add_int(w, &stats, STAT_SYMBOL, symbol);
	if (type)
		stats_add(w, &stats, STAT_TF_OP, XSPACE_STRING, symbol);
	(void)xspace_event_kind(w->xspace, title[0] ? title : "unnamed operation", stats.list,
				stats.n, &kind->id);
	return kind->id;
}

/* The open operations of a thread, the outermost first. */
struct nesting {
	uint64_t end_ns[LINES_PER_THREAD];
	unsigned int n;
};

/* How many operations of the thread enclose the next one; deeper ones have no line. */
static unsigned int op_depth(struct nesting *nesting, const struct span *s)
{
	while (nesting->n && nesting->end_ns[nesting->n - 1] <= s->start_ns)
		nesting->n--;
	if (nesting->n == LINES_PER_THREAD)
		return LINES_PER_THREAD - 1;
	nesting->end_ns[nesting->n] = s->end_ns;
	return nesting->n++;
}

static int line_begin(struct writer *w, uint32_t index, unsigned int depth)
{
	const struct thread *thread = &w->timeline->threads[index];
	char title[128], nested[160];

	writer_long_title(w, thread, title, sizeof(title));
	snprintf(nested, sizeof(nested), "%s, within others: %u", title, depth);
	return writer_line_begin(
		w, &(struct xspace_line){
			   .id = (int64_t)thread->tid | (int64_t)depth << DEPTH_SHIFT,
			   .name = OPS_LINE_NAME,
			   .display_name = depth ? nested : title,
			   .display_id = (int64_t)w->order[index] * LINES_PER_THREAD + depth,
		   });
}

/* Writes the operations of one thread at this depth. Returns whether there are deeper ones. */
static int write_depth(struct writer *w, const struct span *spans, uint64_t n_spans,
		       unsigned int depth, struct op_kind *known)
{
	const struct stats none = { .n = 0 };
	struct nesting nesting = { .n = 0 };
	bool open = false, deeper = false;
	int r = 0;

	for (const struct span *s = spans; s < spans + n_spans && r >= 0; s++) {
		unsigned int at;

		if (s->kind != SPAN_OP || !writer_shows(w, s))
			continue;
		at = op_depth(&nesting, s);
		deeper |= at > depth;
		if (at != depth)
			continue;
		if (!open)
			r = line_begin(w, s->thread, depth);
		open = true;
		if (r >= 0)
			r = writer_event(w, op_kind(w, s, known), s->start_ns, s->end_ns, &none);
	}
	if (r >= 0 && open)
		r = xspace_line_end(w->xspace);
	return r < 0 ? r : deeper;
}

/*
 * Operations that overlap on a line count as parts of each other, and HLO Op Profile leaves out
 * what has parts: so each thread has its own lines, and an operation is on another line than the
 * one that encloses it.
 */
static int write_thread_ops(struct writer *w, const struct span *spans, uint64_t n_spans,
			    struct op_kind *known)
{
	int r = 1;

	for (unsigned int depth = 0; depth < LINES_PER_THREAD && r > 0; depth++)
		r = write_depth(w, spans, n_spans, depth, known);
	return r;
}

static bool shows_ops(const struct timeline *t, unsigned int level)
{
	const struct writer w = { .level = level };

	for (uint64_t i = 0; i < t->n_spans; i++)
		if (t->spans[i].kind == SPAN_OP && writer_shows(&w, &t->spans[i]))
			return true;
	return false;
}

int device_write(struct writer *w)
{
	const struct timeline *t = w->timeline;
	_cleanup_free_ struct op_kind *known = calloc((size_t)t->n_names + 1, sizeof(known[0]));
	uint64_t n_disordered = w->n_disordered;
	struct stats stats = { .n = 0 };
	int r;

	if (!known)
		return -ENOMEM;
	if (!shows_ops(t, w->level))
		return 0;
	r = writer_plane_begin(w, PLANE_DEVICE, "/device:TPU:0");
	if (r < 0)
		return r;
	/* The peak performance of the CPU is unknown, and readers do without it. */
	stats_add_text(w, &stats, STAT_DEVICE_TYPE, "CPU, presented as a device");
	r = xspace_plane_stat(w->xspace, &stats.list[0]);
	for (uint64_t i = 0, end; i < t->n_spans && r >= 0; i = end) {
		for (end = i + 1; end < t->n_spans && t->spans[end].thread == t->spans[i].thread;)
			end++;
		r = write_thread_ops(w, t->spans + i, end - i, known);
	}
	/* They are already counted as operations of the host. */
	w->n_disordered = n_disordered;
	return r < 0 ? r : xspace_plane_end(w->xspace);
}

const char *device_warning(const struct timeline *t, unsigned int level)
{
	if (!shows_ops(t, level))
		return "A device plane was asked for, but there is none: no operations are shown; capture at level 2 or 3.";
	return "The CPU is presented as a device, because a device plane was asked for: HLO Op Profile, HLO Op Stats and Roofline Model call it a TPU, "
	       "show the operations of all threads, and know no FLOPs, bytes or peaks; their idle time means nothing. Framework Op Stats has each operation once "
	       "more, as the device's, and Overview and Input Pipeline Analysis have no steps.";
}
