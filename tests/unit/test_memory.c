/* SPDX-License-Identifier: Apache-2.0 */
/* What allocators allocate and free: from records to the events that the Memory Profile page reads,
 * and to numbers. */
#include "daemon/export/summary/memory_use.h"
#include "tests/unit/exported.h"
#include "tests/unit/fed.h"
#include "tests/unit/packed.h"

enum { S_OP, S_OP_END, S_ALLOCATE, S_ALLOCATED, S_FREE, S_CHUNK, N_SITES };
enum {
	OBJECT = 0x5000,
	GIVE = sizeof("MemoryAllocation") - 1,
	TAKE = sizeof("MemoryDeallocation") - 1
};

static const struct probe_row probes[N_SITES] = {
	[S_OP] = { OPEN(OP) },          [S_OP_END] = { CLOSE(OP) },
	[S_ALLOCATE] = { OPEN(ALLOC) }, [S_ALLOCATED] = { CLOSE(ALLOC), .at_return = true },
	[S_FREE] = { FREE(ALLOC) },     [S_CHUNK] = { POINT(ALLOC), .action = ACTION_READ },
};

TEST_PACK(probes, N_SITES);

static void begin(void)
{
	begin_with(&pack);
}

/* The second target is another process. */
static void begin_with_another(void)
{
	CHECK_EQ(correlator_new(1000, &c), 0);
	CHECK_EQ(correlator_add_target(c, &(struct correlate_target){ .pid = 77,
								      .name = "server",
								      .packs = set_of(&pack) }),
		 0);
	CHECK_EQ(correlator_add_target(c, &(struct correlate_target){ .pid = 88,
								      .name = "other",
								      .packs = set_of(&pack) }),
		 0);
}

/* Stack pointers grow downwards: 100 is inside 200. */
static void feed(uint64_t time, uint32_t tid, uint8_t target, uint8_t site, uint32_t tag,
		 uint64_t value, uint64_t value2)
{
	struct record_probe2 r = { .probe = { .head = { .time = time,
							.tid = tid,
							.kind = RECORD_PROBE,
							.site = site,
							.target = target,
							.size8 = sizeof(struct record_probe2) / 8 },
					      .stack = site == S_OP || site == S_OP_END ? 200 : 100,
					      .tag = tag,
					      .value = value },
				   .value2 = value2 };

	CHECK_EQ(correlator_feed(c, &r.probe.head), 0);
}

static void allocate(uint64_t time, uint32_t tid, uint8_t target, uint64_t bytes, uint64_t address)
{
	feed(time, tid, target, S_ALLOCATE, 0, bytes, 0);
	feed(time + 1, tid, target, S_ALLOCATED, 0, address, 0);
}

static void name_op(void)
{
	struct record_name r = { .head = { .time = 1000, .kind = RECORD_NAME },
				 .object = OBJECT,
				 .name_size = 7,
				 .type_size = 6,
				 .name = "scope/m",
				 .type = "MatMul" };

	CHECK_EQ(correlator_feed(c, &r.head), 0);
}

static void check_event(const struct timeline *t, uint64_t i, uint64_t at, uint64_t address,
			uint64_t bytes, bool freed)
{
	CHECK_EQ(t->memory[i].at_ns, at);
	CHECK_EQ(t->memory[i].address, address);
	CHECK_EQ(t->memory[i].bytes, bytes);
	CHECK_EQ(t->memory[i].freed, freed);
}

TEST(a_block_has_its_size_from_the_call_its_address_from_the_return_and_its_operation_from_the_thread)
{
	struct timeline *t;

	begin();
	name_op();
	feed(1100, 11, 0, S_OP, 1, OBJECT, 0);
	/* Two threads are inside the allocator at once. */
	feed(1200, 11, 0, S_ALLOCATE, 0, 64, 0);
	feed(1210, 12, 0, S_ALLOCATE, 0, 32, 0);
	feed(1220, 11, 0, S_ALLOCATED, 0, 0xa000, 0);
	feed(1230, 12, 0, S_ALLOCATED, 0, 0xb000, 0);
	feed(1300, 11, 0, S_OP_END, 1, 0, 0);
	feed(1400, 12, 0, S_FREE, 0, 0xa000, 0);
	t = finish();
	CHECK_EQ(t->n_memory, 3);
	check_event(t, 0, 1220, 0xa000, 64, false);
	check_event(t, 1, 1230, 0xb000, 32, false);
	check_event(t, 2, 1400, 0xa000, 64, true);
	CHECK_STR(t->names[t->memory[0].op].name, "scope/m:MatMul");
	CHECK_EQ(t->memory[1].op, TEXT_NONE);
	CHECK_EQ(t->memory[2].op, TEXT_NONE);
	timeline_free(t);
}

TEST(unknown_values_are_counted_and_never_invented)
{
	struct timeline *t;

	begin();
	/* The window opened during the call; there was no memory; nothing was freed; it was there
	 * before; twice. */
	feed(1100, 11, 0, S_ALLOCATED, 0, 0xa000, 0);
	allocate(1200, 11, 0, 64, 0);
	feed(1300, 11, 0, S_FREE, 0, 0, 0);
	feed(1400, 11, 0, S_FREE, 0, 0xa000, 0);
	allocate(1500, 11, 0, 16, 0xc000);
	feed(1600, 11, 0, S_FREE, 0, 0xc000, 0);
	feed(1700, 11, 0, S_FREE, 0, 0xc000, 0);
	/* The same address in another process is another block. */
	allocate(1800, 21, 1, 8, 0xc000);
	t = finish();
	CHECK_EQ(t->n_memory, 3);
	check_event(t, 0, 1501, 0xc000, 16, false);
	check_event(t, 1, 1600, 0xc000, 16, true);
	check_event(t, 2, 1801, 0xc000, 8, false);
	CHECK_EQ(t->n_unknown_freed, 2);
	timeline_free(t);
}

TEST(a_block_whose_end_was_lost_ends_where_its_address_is_allocated_again)
{
	struct timeline *t;

	begin();
	allocate(1100, 11, 0, 64, 0xa000);
	allocate(1200, 11, 0, 32, 0xa000);
	t = finish();
	CHECK_EQ(t->n_memory, 3);
	check_event(t, 1, 1201, 0xa000, 64, true);
	check_event(t, 2, 1201, 0xa000, 32, false);
	timeline_free(t);
}

TEST(a_process_that_ends_frees_its_blocks_and_others_keep_theirs)
{
	struct record_thread exit = { .head = { .time = 1500, .tid = 77, .kind = RECORD_EXIT },
				      .pid = 77,
				      .comm = "server" };
	struct timeline *t;

	begin_with_another();
	allocate(1100, 11, 0, 64, 0xa000);
	allocate(1200, 11, 0, 32, 0xb000);
	feed(1300, 11, 0, S_FREE, 0, 0xa000, 0);
	allocate(1400, 21, 1, 16, 0xb000);
	CHECK_EQ(correlator_feed(c, &exit.head), 0);
	t = finish();
	CHECK_EQ(t->n_memory, 5);
	check_event(t, 4, 1500, 0xb000, 32, true);
	timeline_free(t);
}

TEST(a_call_and_a_return_with_lost_records_between_them_are_not_matched)
{
	struct timeline *t;

	begin();
	feed(1100, 11, 0, S_ALLOCATE, 0, 64, 0);
	CHECK_EQ(correlator_note_loss(c, 1150, 1160), 0);
	feed(1200, 11, 0, S_ALLOCATED, 0, 0xa000, 0);
	allocate(1300, 11, 0, 32, 0xb000);
	t = finish();
	CHECK_EQ(t->n_memory, 1);
	check_event(t, 0, 1301, 0xb000, 32, false);
	timeline_free(t);
}

TEST(impossible_sizes_are_left_out_and_counted)
{
	struct timeline *t;

	begin();
	feed(1100, 11, 0, S_CHUNK, GIVE, 0xa000, UINT64_MAX);
	feed(1200, 11, 0, S_CHUNK, TAKE, 0xa000, UINT64_C(1) << 63);
	allocate(1300, 11, 0, INT64_MAX, 0xb000);
	t = finish();
	CHECK_EQ(t->n_memory, 0);
	CHECK_EQ(t->n_memory_left_out, 3);
	timeline_free(t);
}

TEST(totals_are_per_allocator_and_relative_to_the_start_of_the_window)
{
	struct memory_use use[ALLOCATOR_COUNT];
	struct timeline *t;

	begin();
	allocate(1100, 11, 0, 100, 0xa000);
	allocate(1200, 11, 0, 50, 0xb000);
	feed(1300, 11, 0, S_FREE, 0, 0xa000, 0);
	feed(1310, 11, 0, S_FREE, 0, 0xf000, 0);
	/* A piece that was allocated before the window: its size comes with it. Another word is not
	 * an event. */
	feed(1400, 11, 0, S_CHUNK, TAKE, 0xd000, 1000);
	feed(1500, 11, 0, S_CHUNK, GIVE, 0xe000, 300);
	feed(1600, 11, 0, S_CHUNK, 5, 0xe000, 300);
	t = finish();
	memory_use_make(t, PROCESS_ANY, use);
	CHECK_EQ(use[ALLOCATOR_CPU].n_allocations, 2);
	CHECK_EQ(use[ALLOCATOR_CPU].n_deallocations, 1);
	CHECK_EQ(use[ALLOCATOR_CPU].n_unknown, 1);
	CHECK_EQ(use[ALLOCATOR_CPU].allocated_bytes, 150);
	CHECK_EQ(use[ALLOCATOR_CPU].peak_bytes, 150);
	CHECK_EQ(use[ALLOCATOR_CPU].begin_bytes, 0);
	CHECK_EQ(use[ALLOCATOR_BFC].n_allocations, 1);
	CHECK_EQ(use[ALLOCATOR_BFC].n_deallocations, 1);
	CHECK_EQ(use[ALLOCATOR_BFC].peak_bytes, 1000);
	CHECK_EQ(use[ALLOCATOR_BFC].begin_bytes, 1000);
	timeline_free(t);
}

static const XLine *allocations(const XPlane *host)
{
	for (size_t i = 0; i < host->n_lines; i++)
		if (!strcmp(host->lines[i]->name, "allocations"))
			return host->lines[i];
	return NULL;
}

TEST(each_process_has_allocators_of_its_own)
{
	static const struct {
		const char *allocator;
		int64_t in_use, peak, address;
	} expected[] = {
		{ "cpu of server/77", 64, 64, 0xa000 },
		{ "cpu of other/88", 16, 16, 0xa000 | INT64_C(1) << 56 },
		{ "cpu of server/77", 0, 64, 0xa000 },
		{ "cpu of other/88", 24, 24, 0xb000 | INT64_C(1) << 56 },
		{ "BFC of other/88", 0, 500, 0xc000 | INT64_C(1) << 56 },
	};
	struct memory_use use[ALLOCATOR_COUNT];
	const XLine *line;
	const XPlane *host;
	struct timeline *t;
	XSpace *space;

	begin_with_another();
	allocate(1100, 11, 0, 64, 0xa000);
	allocate(1200, 21, 1, 16, 0xa000);
	feed(1300, 11, 0, S_FREE, 0, 0xa000, 0);
	allocate(1400, 21, 1, 8, 0xb000);
	feed(1500, 21, 1, S_CHUNK, TAKE, 0xc000, 500);
	t = finish();
	space = export_at(t, 2);
	host = find_plane(space, "/host:CPU");
	line = allocations(host);
	CHECK(line && line->n_events == ARRAY_SIZE(expected));
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		CHECK_STR(stat_text(host, line->events[i], "allocator_name"),
			  expected[i].allocator);
		CHECK(has_int(host, line->events[i], "bytes_allocated", expected[i].in_use));
		CHECK(has_int(host, line->events[i], "peak_bytes_in_use", expected[i].peak));
		CHECK(has_int(host, line->events[i], "addr", expected[i].address));
	}
	memory_use_make(t, PROCESS_ANY, use);
	CHECK_EQ(use[ALLOCATOR_CPU].peak_bytes, 80);
	memory_use_make(t, 1, use);
	CHECK_EQ(use[ALLOCATOR_CPU].peak_bytes, 24);
	CHECK_EQ(use[ALLOCATOR_CPU].n_allocations, 2);
	space_free(space);
	timeline_free(t);
}

TEST(memory_events_have_the_stats_that_the_page_reads_and_are_not_operations)
{
	static const struct {
		const char *name, *allocator, *op;
		int64_t at_ns, in_use, bytes, address;
	} expected[] = {
		{ "MemoryAllocation", "cpu", "scope/m", 151, 64, 64, 0xa000 },
		{ "MemoryAllocation", "cpu", NULL, 301, 96, 32, 0xb000 },
		{ "MemoryDeallocation", "cpu", NULL, 400, 32, 64, 0xa000 },
		{ "MemoryDeallocation", "BFC", NULL, 500, 0, 1000, 0xd000 },
	};
	const struct correlate_target target = { .pid = 77,
						 .name = "server",
						 .packs = set_of(&pack) };
	const XLine *line;
	const XPlane *host;
	struct timeline *t;
	XSpace *space;

	CHECK_EQ(correlator_new(1000, &c), 0);
	CHECK_EQ(correlator_add_target(c, &target), 0);
	name_op();
	feed(1100, 11, 0, S_OP, 1, OBJECT, 0);
	allocate(1150, 11, 0, 64, 0xa000);
	feed(1200, 11, 0, S_OP_END, 1, 0, 0);
	allocate(1300, 12, 0, 32, 0xb000);
	feed(1400, 12, 0, S_FREE, 0, 0xa000, 0);
	feed(1500, 11, 0, S_CHUNK, TAKE, 0xd000, 1000);
	t = finish();
	space = export_at(t, 2);
	host = find_plane(space, "/host:CPU");
	line = allocations(host);
	CHECK(line);
	CHECK_EQ(line->id, 0xdeadbeefll + 300);
	CHECK_EQ(line->n_events, ARRAY_SIZE(expected));
	for (size_t i = 0; i < line->n_events; i++) {
		const XEvent *e = line->events[i];

		CHECK_STR(event_name(host, e), expected[i].name);
		CHECK_EQ(e->offset_ps / 1000, expected[i].at_ns);
		CHECK_EQ(e->duration_ps, 0);
		CHECK_STR(stat_text(host, e, "allocator_name"), expected[i].allocator);
		CHECK(has_int(host, e, "bytes_allocated", expected[i].in_use));
		CHECK(has_int(host, e, "requested_bytes", expected[i].bytes));
		CHECK(has_int(host, e, "allocation_bytes", expected[i].bytes));
		CHECK(has_int(host, e, "addr", expected[i].address));
		CHECK_EQ(!stat_text(host, e, "tf_op"), !expected[i].op);
		if (expected[i].op)
			CHECK_STR(stat_text(host, e, "tf_op"), expected[i].op);
	}
	space_free(space);
	timeline_free(t);
}

CHECK_MAIN()
