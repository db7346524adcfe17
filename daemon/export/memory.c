#include "daemon/export/memory.h"

#include <stdio.h>
#include <string.h>

#include "daemon/export/memory_use.h"
#include "lib/base/macro.h"

/* Readers take events with an operation's name for executions of it, but not those of lines from 0xdeadbeef on. */
#define MEMORY_LINE (0xdeadbeefll + 300)
/* Addresses of processes have 47 bits. */
#define PROCESS_SHIFT 56

/* Of "scope/op:Type" what comes before the type. */
static void add_op(struct writer *w, const struct memory_event *e, struct stats *stats)
{
	const struct timeline *t = w->timeline;
	const char *name = e->op < t->n_names ? t->names[e->op].name : NULL, *colon = name ? strrchr(name, ':') : NULL;
	char text[512];

	if (!name)
		return;
	snprintf(text, sizeof(text), "%.*s", (int)(colon ? colon - name : (long)strlen(name)), name);
	stats_add_text(w, stats, STAT_TF_OP, text);
}

static int write_event(struct writer *w, const struct memory_event *e, uint32_t name, uint64_t in_use, uint64_t peak)
{
	struct stats stats;

	stats.n = 0;
	stats_add_text(w, &stats, STAT_ALLOCATOR, memory_allocator_name(e->allocator));
	stats_add_int(w, &stats, STAT_IN_USE, (int64_t)in_use);
	stats_add_int(w, &stats, STAT_PEAK, (int64_t)peak);
	stats_add_int(w, &stats, STAT_REQUESTED, (int64_t)e->bytes);
	stats_add_int(w, &stats, STAT_ALLOCATION, (int64_t)e->bytes);
	/* Readers tell blocks by their address alone, which two processes may share. */
	stats_add_int(w, &stats, STAT_ADDRESS,
		      (int64_t)(e->address | (uint64_t)w->timeline->threads[e->thread].process << PROCESS_SHIFT));
	add_op(w, e, &stats);
	return writer_event(w, name, e->at_ns, e->at_ns, &stats);
}

int memory_write(struct writer *w)
{
	const struct timeline *t = w->timeline;
	uint64_t in_use[ALLOCATOR_COUNT], peak[ALLOCATOR_COUNT];
	struct memory_use use[ALLOCATOR_COUNT];
	uint32_t allocation = 0, deallocation = 0;
	int r;

	if (!t->n_memory)
		return 0;
	memory_use_make(t, use);
	for (unsigned int i = 0; i < ALLOCATOR_COUNT; i++)
		in_use[i] = peak[i] = use[i].begin_bytes;
	(void)xspace_event_name(w->xspace, "MemoryAllocation", NULL, &allocation);
	(void)xspace_event_name(w->xspace, "MemoryDeallocation", NULL, &deallocation);
	r = writer_line_begin(w, &(struct xspace_line){ .id = MEMORY_LINE, .name = "allocations" });
	for (uint64_t i = 0; i < t->n_memory && r >= 0; i++) {
		const struct memory_event *e = &t->memory[i];

		in_use[e->allocator] += e->freed ? -e->bytes : e->bytes;
		peak[e->allocator] = MAX(peak[e->allocator], in_use[e->allocator]);
		r = write_event(w, e, e->freed ? deallocation : allocation, in_use[e->allocator], peak[e->allocator]);
	}
	return r < 0 ? r : xspace_line_end(w->xspace);
}
