/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/xspace/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/export/summary/memory_use.h"
#include "daemon/export/summary/op_category.h"
#include "lib/base/macro.h"

/* Readers take events with an operation's name for executions of it, but not those of lines from
 * 0xdeadbeef on. */
#define MEMORY_LINE (0xdeadbeefll + 300)
/* Addresses of processes have 47 bits. */
#define PROCESS_SHIFT 56

/* Adds "scope/op" of "scope/op:Type". */
static void add_op(struct writer *w, const struct memory_event *e, struct stats *stats)
{
	struct span_name n;
	const char *type;
	char text[512];

	if (e->op >= w->timeline->n_names)
		return;
	n = writer_shown(w, e->op);
	type = op_type(&n);
	snprintf(text, sizeof(text), "%.*s", (int)(type ? type - 1 - n.name : (long)strlen(n.name)),
		 n.name);
	stats_add_text(w, stats, STAT_TF_OP, text);
}

/* What is allocated from an allocator of a process, and the maximum so far. */
struct curve {
	uint64_t in_use, peak;
};

/* Allocators of different processes are independent. */
static void add_allocator(struct writer *w, const struct memory_event *e, struct stats *stats)
{
	const struct timeline *t = w->timeline;
	const struct process *process = &t->processes[t->threads[e->thread].process];
	char text[64];

	snprintf(text, sizeof(text), "%s of %.*s/%u", memory_allocator_name(e->allocator),
		 (int)sizeof(process->name), process->name, process->pid);
	stats_add_text(w, stats, STAT_ALLOCATOR,
		       t->n_processes > 1 ? text : memory_allocator_name(e->allocator));
}

static int write_event(struct writer *w, const struct memory_event *e, uint32_t name,
		       const struct curve *curve)
{
	struct stats *stats = writer_stats(w);

	add_allocator(w, e, stats);
	stats_add_int(w, stats, STAT_IN_USE, (int64_t)curve->in_use);
	stats_add_int(w, stats, STAT_PEAK, (int64_t)curve->peak);
	stats_add_int(w, stats, STAT_REQUESTED, (int64_t)e->bytes);
	stats_add_int(w, stats, STAT_ALLOCATION, (int64_t)e->bytes);
	/* Readers identify blocks by their address alone, which two processes may share. */
	stats_add_int(w, stats, STAT_ADDRESS,
		      (int64_t)(e->address | (uint64_t)w->timeline->threads[e->thread].process
						     << PROCESS_SHIFT));
	add_op(w, e, stats);
	return writer_event(w, name, e->at_ns, e->at_ns, stats);
}

int memory_write(struct writer *w)
{
	const struct timeline *t = w->timeline;
	_cleanup_free_ struct curve *curves =
		calloc((size_t)t->n_processes * ALLOCATOR_COUNT + 1, sizeof(curves[0]));
	struct memory_use use[ALLOCATOR_COUNT];
	uint32_t allocation = 0, deallocation = 0;
	int r;

	if (!curves)
		return -ENOMEM;
	if (!t->n_memory)
		return 0;
	for (uint32_t process = 0; process < t->n_processes; process++) {
		memory_use_make(t, process, use);
		for (unsigned int i = 0; i < ALLOCATOR_COUNT; i++)
			curves[process * ALLOCATOR_COUNT + i].in_use =
				curves[process * ALLOCATOR_COUNT + i].peak = use[i].begin_bytes;
	}
	(void)xspace_event_name(w->xspace, "MemoryAllocation", NULL, &allocation);
	(void)xspace_event_name(w->xspace, "MemoryDeallocation", NULL, &deallocation);
	r = writer_line_begin(w, &(struct xspace_line){ .id = MEMORY_LINE, .name = "allocations" });
	for (uint64_t i = 0; i < t->n_memory && r >= 0; i++) {
		const struct memory_event *e = &t->memory[i];
		struct curve *curve =
			&curves[t->threads[e->thread].process * ALLOCATOR_COUNT + e->allocator];

		curve->in_use += e->freed ? -e->bytes : e->bytes;
		curve->peak = MAX(curve->peak, curve->in_use);
		r = write_event(w, e, e->freed ? deallocation : allocation, curve);
	}
	return r < 0 ? r : xspace_line_end(w->xspace);
}
