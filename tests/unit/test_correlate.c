/* SPDX-License-Identifier: Apache-2.0 */
/* Records in, spans out: nesting, identity, names, truncation. */
#include "tests/unit/check.h"

#include <stdlib.h>

#include "daemon/correlate/correlate.h"
#include "daemon/correlate/runtime/frames.h"
#include "lib/base/macro.h"
#include "tests/unit/nested.h"
#include "tests/unit/packed.h"

/* A runtime of the test's own, so that no real one's names are needed. */
enum {
	S_RUN,
	S_RUN_END,
	S_START,
	S_WORK,
	S_FINISH,
	S_DONE,
	S_OP,
	S_ASYNC,
	S_OP_END,
	S_FREE,
	S_SCHEDULE,
	N_SITES
};

static const struct probe_row probes[N_SITES] = {
	[S_RUN] = { OPEN(RUN), .value = { ARGUMENT_1 }, .group = 1, .event = "Run" },
	[S_RUN_END] = { CLOSE(RUN), .group = 1 },
	[S_START] = { ENQUEUE(PIECE), .action = ACTION_READ },
	[S_WORK] = { OPEN(PIECE), .action = ACTION_READ, .event = "Work" },
	[S_FINISH] = { CLOSE(PIECE), .action = ACTION_READ },
	[S_DONE] = { OPEN(PIECE), .last = true, .action = ACTION_READ, .event = "Done" },
	[S_OP] = { OPEN(OP), .action = ACTION_OBJECT },
	[S_ASYNC] = { OPEN(OP), .async = true, .action = ACTION_OBJECT },
	[S_OP_END] = { CLOSE(OP) },
	[S_FREE] = { FREE(OP) },
	[S_SCHEDULE] = { ENQUEUE(OP), .event = "Schedule" },
};

static bool any(const char *s, uint32_t size)
{
	return size > 0;
}

static const char *const cheap[] = { "Cheap", NULL };
static const struct pack pack = { .name = "test",
				  .rows = probes,
				  .n_rows = N_SITES,
				  .cheap_types = cheap,
				  .names = {
					  .is_name = any, .is_type = any, .type_distance = 16 } };

#define RECORDS_MAX 1200
#define RECORD_BYTES 4096

static union {
	struct record head;
	char bytes[RECORD_BYTES];
} space[RECORDS_MAX];
static const struct record *records[RECORDS_MAX];
static unsigned n_records;

static void *add(uint64_t time, uint32_t tid, uint8_t kind, size_t size)
{
	struct record *r = &space[n_records].head;

	memset(&space[n_records], 0, RECORD_BYTES);
	*r = (struct record){ .time = time,
			      .tid = tid,
			      .kind = kind,
			      .size8 = size <= 2040 ? (uint8_t)(size / 8) : 0 };
	records[n_records++] = r;
	return r;
}

/* Stack pointers grow downwards: 100 is inside 200. */
static void probe(uint64_t time, uint32_t tid, uint8_t site, uint32_t stack, uint32_t tag,
		  uint64_t value)
{
	struct record_probe2 *r = add(time, tid, RECORD_PROBE, sizeof(struct record_probe));

	r->probe.head.site = site;
	r->probe.stack = stack;
	r->probe.tag = tag;
	r->probe.value = value;
}

static void probe2(uint64_t time, uint32_t tid, uint8_t site, uint32_t stack, uint64_t value,
		   uint64_t value2)
{
	struct record_probe2 *r = add(time, tid, RECORD_PROBE, sizeof(*r));

	r->probe.head.site = site;
	r->probe.stack = stack;
	r->probe.value = value;
	r->value2 = value2;
}

static void name(uint64_t time, uint64_t object, const char *op, const char *type)
{
	struct record_name *r = add(time, 1, RECORD_NAME, sizeof(*r));

	r->object = object;
	r->name_size = (uint32_t)strlen(op);
	r->type_size = (uint32_t)strlen(type);
	memcpy(r->name, op, r->name_size);
	memcpy(r->type, type, r->type_size);
}

static void switched(uint64_t time, uint32_t prev, uint32_t next, uint16_t flags, uint32_t state,
		     int32_t call)
{
	struct record_switch *r = add(time, prev, RECORD_SWITCH, sizeof(*r));

	r->next_tid = next;
	r->flags = flags;
	r->state = state;
	r->syscall = call;
	r->cpu = 1;
}

static void woken(uint64_t time, uint32_t tid, uint32_t waker, int32_t waker_call)
{
	struct record_wake *r = add(time, tid, RECORD_WAKE, sizeof(*r));

	r->waker_tid = waker;
	r->waker_syscall = waker_call;
}

/* What a test may change about the run. */
static struct {
	bool ops_at_entry;
	uint64_t shed_ns; /* 0: nothing is shed */
	enum probe_kind shed;
	uint64_t resumed_ns; /* operations; 0: never */
} how;

static struct timeline *run(void)
{
	const struct correlate_target target = { .pid = 77,
						 .name = "server",
						 .packs = set_of(&pack),
						 .ops_at_entry = how.ops_at_entry };
	struct correlator *c = NULL;
	struct timeline *t = NULL;

	CHECK_EQ(correlator_new(1000, &c), 0);
	CHECK_EQ(correlator_add_target(c, &target), 0);
	for (unsigned i = 0; i < n_records; i++) {
		/* As late as it can arrive: just before the first record that it concerns. */
		if (how.shed_ns && records[i]->time >= how.shed_ns) {
			CHECK_EQ(correlator_shed(c, how.shed, how.shed_ns, "too expensive"), 0);
			how.shed_ns = 0;
		}
		if (how.resumed_ns && records[i]->time >= how.resumed_ns) {
			CHECK_EQ(correlator_resume(c, KIND_OPS, how.resumed_ns), 0);
			how.resumed_ns = 0;
		}
		CHECK_EQ(correlator_feed(c, records[i]), 0);
	}
	CHECK_EQ(correlator_finish(c, 9000, 5000000000, &t), 0);
	correlator_free(c);
	n_records = 0;
	memset(&how, 0, sizeof(how));
	return t;
}

static const struct span *find(const struct timeline *t, const char *event, unsigned which)
{
	for (uint64_t i = 0; i < t->n_spans; i++)
		if (!strcmp(t->names[t->spans[i].name].name, event) && !which--)
			return &t->spans[i];
	return NULL;
}

/* Checks that the span with this name has these times; another span is returned if it is
 * missing. */
static const struct span *expect(const struct timeline *t, const char *event, unsigned which,
				 uint64_t start, uint64_t end)
{
	static const struct span none;
	const struct span *s = find(t, event, which);

	CHECK(s != NULL);
	if (!s)
		return &none;
	CHECK_EQ(s->start_ns, start);
	CHECK_EQ(s->end_ns, end);
	return s;
}

TEST(an_op_ends_where_its_context_is_destroyed)
{
	struct timeline *t;
	const struct span *s;

	name(1999, 0xa0, "scope/a", "MatMul");
	probe(2000, 1, S_OP, 100, 7, 0xa0);
	probe(2500, 1, S_OP_END, 100, 7, 0);
	t = run();
	s = expect(t, "scope/a:MatMul", 0, 2000, 2500);
	CHECK_STR(t->names[s->name].display, "MatMul");
	CHECK_EQ(s->flags, 0);
	CHECK_EQ(t->n_ops, 1);
	timeline_free(t);
}

TEST(the_time_of_nested_ops_is_not_self_time_of_the_outer_one)
{
	struct timeline *t;

	name(1500, 0xa0, "outer", "Call");
	name(1500, 0xb0, "inner", "Mul");
	probe(2000, 1, S_OP, 200, 7, 0xa0);
	probe(2100, 1, S_OP, 100, 8, 0xb0);
	probe(2400, 1, S_OP_END, 100, 8, 0);
	probe(3000, 1, S_OP_END, 200, 7, 0);
	t = run();
	CHECK_EQ(expect(t, "outer:Call", 0, 2000, 3000)->self_ns, 700);
	CHECK_EQ(depth_of(t, expect(t, "inner:Mul", 0, 2100, 2400)), 1);
	timeline_free(t);
}

TEST(an_op_whose_end_was_lost_ends_when_its_frame_must_have_returned)
{
	struct timeline *t;

	name(1500, 0xa0, "a", "Mul");
	probe(2000, 1, S_OP, 100, 7, 0xa0);
	probe(2600, 1, S_OP, 100, 8, 0xa0); /* the same depth: the first one has returned */
	probe(2700, 1, S_OP_END, 100, 8, 0);
	t = run();
	CHECK_EQ(expect(t, "a:Mul", 0, 2000, 2600)->flags, SPAN_END_NOT_SEEN);
	CHECK_EQ(expect(t, "a:Mul", 1, 2600, 2700)->flags, 0);
	timeline_free(t);
}

TEST(earlier_objects_are_named_once_their_layout_is_known)
{
	const struct correlate_target target = { .pid = 77,
						 .name = "server",
						 .packs = set_of(&pack) };
	const struct record_layout layout = { .name_offset = 200, .type_offset = 216 };
	struct correlator *c = NULL;
	struct timeline *t = NULL;
	struct record_object *o;

	o = add(1999, 1, RECORD_OBJECT, sizeof(*o));
	o->object = 0xa0;
	o->n_candidates = 2;
	o->candidates[0] = (struct record_candidate){ .offset = 200, .size = 1, .bytes = "a" };
	o->candidates[1] = (struct record_candidate){ .offset = 216, .size = 3, .bytes = "Mul" };
	probe(2000, 1, S_OP, 100, 7, 0xa0);
	probe(2500, 1, S_OP_END, 100, 7, 0);
	CHECK_EQ(correlator_new(1000, &c), 0);
	CHECK_EQ(correlator_add_target(c, &target), 0);
	for (unsigned i = 0; i < n_records; i++)
		CHECK_EQ(correlator_feed(c, records[i]), 0);
	CHECK_EQ(correlator_set_layout(c, 0, 0, &layout), 0);
	CHECK_EQ(correlator_finish(c, 9000, 5000000000, &t), 0);
	expect(t, "a:Mul", 0, 2000, 2500);
	timeline_free(t);
	correlator_free(c);
	n_records = 0;
}

TEST(a_reused_address_has_the_name_valid_at_that_time)
{
	struct timeline *t;

	name(1500, 0xa0, "old", "Mul");
	probe(2000, 1, S_OP, 100, 7, 0xa0);
	probe(2100, 1, S_OP_END, 100, 7, 0);
	probe(3000, 2, S_FREE, 100, 0, 0xa0);
	probe(4000, 1, S_OP, 100, 7, 0xa0); /* another CPU sends the name a little later */
	name(4010, 0xa0, "new", "Add");
	probe(4100, 1, S_OP_END, 100, 7, 0);
	t = run();
	expect(t, "old:Mul", 0, 2000, 2100);
	expect(t, "new:Add", 0, 4000, 4100);
	CHECK_EQ(t->n_lost_names, 0);
	timeline_free(t);
}

TEST(an_op_without_a_name_is_shown_and_counted_as_such)
{
	struct timeline *t;

	probe(2000, 1, S_OP, 100, 7, 0xa0);
	probe(2100, 1, S_OP_END, 100, 7, 0);
	t = run();
	CHECK_EQ(t->n_lost_names, 1);
	CHECK_EQ(t->n_spans, 1);
	CHECK(t->names[t->spans[0].name].lost);
	timeline_free(t);
}

TEST(executors_on_other_threads_belong_to_the_run_with_their_call_object)
{
	struct timeline *t;
	const struct span *first, *second;

	probe(2000, 1, S_RUN, 500, 0, 41);
	probe2(2010, 1, S_START, 400, 41, 0xc1);
	probe(2005, 2, S_RUN, 500, 0, 42);
	probe2(2015, 2, S_START, 400, 42, 0xc2);
	probe2(2100, 3, S_WORK, 300, 42, 0xc2);
	probe(2110, 3, S_OP, 200, 7, 0xa0);
	probe(2150, 3, S_OP_END, 200, 7, 0);
	probe2(2200, 3, S_WORK, 300, 41, 0xc1);
	probe(2210, 3, S_OP, 200, 7, 0xa0);
	probe(2250, 3, S_OP_END, 200, 7, 0);
	probe2(2260, 3, S_FINISH, 200, 41, 0xc1);
	probe(2900, 2, S_RUN_END, 450, 0, 0);
	probe(3000, 1, S_RUN_END, 450, 0, 0);
	t = run();
	first = expect(t, "Run", 0, 2000, 3000);
	second = expect(t, "Run", 1, 2005, 2900);
	CHECK_EQ(first->step, 41);
	CHECK(first->context && second->context && first->context != second->context);
	CHECK_EQ(expect(t, "Work", 0, 2100, 2150)->context, second->context);
	CHECK_EQ(expect(t, "Work", 1, 2200, 2260)->context, first->context);
	CHECK_EQ(t->n_runs, 2);
	CHECK_EQ(t->n_runs_truncated, 0);
	timeline_free(t);
}

TEST(an_executor_of_a_run_from_before_the_window_is_unattributed)
{
	struct timeline *t;

	probe2(2100, 3, S_WORK, 300, 42, 0xc2);
	probe(2110, 3, S_OP, 200, 7, 0xa0);
	probe(2150, 3, S_OP_END, 200, 7, 0);
	t = run();
	CHECK_EQ(expect(t, "Work", 0, 2100, 2150)->context, 0);
	timeline_free(t);
}

TEST(a_call_object_used_again_belongs_to_the_later_run)
{
	struct timeline *t;

	probe(2000, 1, S_RUN, 500, 0, 41);
	probe2(2010, 1, S_START, 400, 41, 0xc1);
	probe(2500, 1, S_RUN_END, 450, 0, 0);
	probe(3000, 1, S_RUN, 500, 0, 42);
	probe2(3010, 1, S_START, 400, 42, 0xc1);
	probe2(3100, 3, S_WORK, 300, 42, 0xc1);
	probe(3500, 1, S_RUN_END, 450, 0, 0);
	t = run();
	CHECK_EQ(find(t, "Work", 0)->context, find(t, "Run", 1)->context);
	timeline_free(t);
}

TEST(a_done_callback_is_linked_only_when_one_run_has_its_step)
{
	struct timeline *t;

	probe(2000, 1, S_RUN, 500, 0, 41);
	probe2(2010, 1, S_START, 400, 41, 0xc1);
	probe2(2020, 3, S_DONE, 300, 41, 0);
	probe(2500, 1, S_RUN_END, 450, 0, 0);
	probe(3000, 1, S_RUN, 500, 0, 41);
	probe2(3010, 1, S_START, 400, 41, 0xc2);
	probe2(3020, 3, S_DONE, 300, 41, 0);
	probe(3500, 1, S_RUN_END, 450, 0, 0);
	t = run();
	CHECK_EQ(find(t, "Done", 0)->context, find(t, "Run", 0)->context);
	CHECK_EQ(find(t, "Done", 1)->context, 0);
	timeline_free(t);
}

TEST(runs_that_cross_an_edge_of_the_window_are_truncated_and_counted)
{
	struct timeline *t;

	probe(2000, 1, S_RUN_END, 450, 0, 0);
	probe(8000, 1, S_RUN, 500, 0, 43);
	t = run();
	CHECK_EQ(expect(t, "Run", 0, 1000, 2000)->flags, SPAN_TRUNCATED_START);
	CHECK_EQ(expect(t, "Run", 1, 8000, 9000)->flags, SPAN_TRUNCATED_END);
	CHECK_EQ(t->n_runs, 0);
	CHECK_EQ(t->n_runs_truncated, 2);
	timeline_free(t);
}

TEST(an_asynchronous_op_is_its_launch_also_when_it_finishes_elsewhere)
{
	struct timeline *t;

	name(1500, 0xa0, "recv", "Recv");
	probe2(2000, 1, S_WORK, 300, 1, 2);
	probe(2010, 1, S_ASYNC, 200, 7, 0xa0);
	probe(2040, 1, S_OP, 200, 8, 0xb0);
	probe(2050, 1, S_OP_END, 200, 8, 0);
	probe(4000, 2, S_OP_END, 200, 7, 0);
	t = run();
	CHECK_EQ(expect(t, "recv:Recv", 0, 2010, 2040)->flags, SPAN_ASYNC | SPAN_END_NOT_SEEN);
	expect(t, "Work", 0, 2000, 2050);
	timeline_free(t);
}

TEST(the_last_launch_of_a_thread_does_not_extend_to_the_end_of_the_window)
{
	struct timeline *t;

	name(1500, 0xa0, "call", "Call");
	for (uint32_t tid = 1; tid <= 3; tid++) {
		probe2(2000, tid, S_WORK, 300, 1, 2);
		probe(2010 + tid, tid, S_ASYNC, 200, 7, 0xa0);
	}
	probe(2040, 1, S_OP_END, 100, 7, 0); /* finished within its launch */
	switched(2100, 1, 9, SWITCH_OUT, 1, 202 /* futex */);
	switched(2200, 2, 9, SWITCH_OUT, 1, 202);
	t = run();
	CHECK_EQ(expect(t, "call:Call", 0, 2011, 2040)->flags, SPAN_ASYNC | SPAN_END_NOT_SEEN);
	CHECK_EQ(expect(t, "call:Call", 1, 2012, 2200)->flags, SPAN_ASYNC | SPAN_END_NOT_SEEN);
	CHECK_EQ(expect(t, "call:Call", 2, 2013, 9000)->flags, SPAN_ASYNC | SPAN_TRUNCATED_END);
	timeline_free(t);
}

TEST(a_launch_ends_when_it_hands_its_work_over)
{
	struct timeline *t;

	name(1500, 0xa0, "next", "Next");
	switched(1600, 3, 9, SWITCH_OUT, 1, 202);
	for (uint32_t tid = 1; tid <= 2; tid++) {
		probe2(2000, tid, S_WORK, 300, 1, 2);
		probe(2010 + tid, tid, S_ASYNC, 200, 7, 0xa0);
	}
	switched(2013, 2, 9, SWITCH_OUT | SWITCH_PREEMPTED, 0, -1);
	woken(2015, 3, 1, 202);
	/* Woken by a thread of another process, by an interrupt, and by a thread that has moved on
	 * to something else. */
	woken(2017, 3, 9, 202);
	woken(2019, 3, 1, -1);
	woken(2021, 3, 2, 202);
	probe(2040, 1, S_OP, 200, 8, 0xb0);
	probe(2050, 1, S_OP_END, 200, 8, 0);
	t = run();
	CHECK_EQ(expect(t, "next:Next", 0, 2011, 2015)->flags, SPAN_ASYNC | SPAN_END_NOT_SEEN);
	CHECK_EQ(expect(t, "next:Next", 1, 2012, 2013)->flags, SPAN_ASYNC | SPAN_END_NOT_SEEN);
	timeline_free(t);
}

TEST(time_off_the_cpu_is_split_into_blocked_and_runnable)
{
	struct timeline *t;
	const struct span *s;

	name(1500, 0xa0, "a", "Mul");
	switched(1500, 9, 1, SWITCH_IN, 0, -1);
	switched(1500, 9, 2, SWITCH_IN, 0, -1);
	probe(2000, 1, S_OP, 100, 7, 0xa0);
	switched(2100, 1, 9, SWITCH_OUT, 1, 202 /* futex */);
	woken(2300, 1, 2, 202);
	switched(2400, 9, 1, SWITCH_IN, 0, -1);
	switched(2500, 1, 9, SWITCH_OUT | SWITCH_PREEMPTED, 0, -1);
	switched(2700, 9, 1, SWITCH_IN, 0, -1);
	probe(3000, 1, S_OP_END, 100, 7, 0);
	t = run();
	s = expect(t, "futex", 0, 2100, 2300);
	CHECK_EQ(s->kind, SPAN_BLOCKED);
	CHECK_EQ(s->flags, 0);
	CHECK(s->waker >= 0 && t->threads[s->waker].tid == 2);
	CHECK_EQ(expect(t, "runqueue", 0, 2300, 2400)->kind, SPAN_RUNNABLE);
	CHECK_EQ(expect(t, "preempted", 0, 2500, 2700)->kind, SPAN_RUNNABLE);
	CHECK_EQ(t->slices[0].cpu, 1);
	timeline_free(t);
}

TEST(a_thread_whose_switch_to_its_cpu_was_not_seen_has_it_since_the_last_switch_there)
{
	struct timeline *t;

	switched(1500, 1, 9, SWITCH_OUT, 1, 202);
	switched(1700, 2, 9, SWITCH_OUT, 1, 202);
	t = run();
	CHECK_EQ(t->n_slices, 2);
	CHECK_EQ(t->threads[t->slices[0].thread].tid, 1);
	CHECK_EQ(t->slices[0].start_ns, t->start_ns);
	CHECK_EQ(t->slices[1].start_ns, 1500);
	CHECK_EQ(t->slices[1].end_ns, 1700);
	timeline_free(t);
}

TEST(a_thread_that_does_something_has_a_cpu_though_its_switch_to_it_was_not_seen)
{
	const uint16_t left = SWITCH_OUT | SWITCH_PREEMPTED;
	struct timeline *t;

	switched(1500, 9, 1, SWITCH_IN, 0, -1);
	switched(1600, 1, 9, left, 0, -1);
	probe2(1700, 1, S_WORK, 300, 1, 2);
	switched(1800, 1, 9, left, 0, -1);
	/* The next one is only seen to leave its CPU. */
	switched(2000, 1, 9, left, 0, -1);
	switched(2100, 9, 1, SWITCH_IN, 0, -1);
	t = run();
	CHECK_EQ(expect(t, "preempted", 0, 1600, 1700)->flags, SPAN_END_NOT_SEEN);
	CHECK_EQ(expect(t, "preempted", 1, 1800, 2000)->flags, SPAN_END_NOT_SEEN);
	CHECK_EQ(expect(t, "preempted", 2, 2000, 2100)->flags, 0);
	CHECK_EQ(t->slices[1].start_ns, 1700);
	CHECK_EQ(t->slices[1].end_ns, 1800);
	timeline_free(t);
}

TEST(a_record_that_comes_late_ends_no_wait_that_began_after_it)
{
	const uint16_t left = SWITCH_OUT | SWITCH_PREEMPTED;
	struct timeline *t;

	switched(1500, 9, 1, SWITCH_IN, 0, -1);
	switched(1700, 1, 9, left, 0, -1);
	probe2(1650, 1, S_WORK, 300, 1, 2);
	switched(1900, 9, 1, SWITCH_IN, 0, -1);
	t = run();
	CHECK_EQ(expect(t, "preempted", 0, 1700, 1900)->flags, 0);
	timeline_free(t);
}

TEST(a_thread_does_not_have_its_cpu_before_another_one_left_it)
{
	struct timeline *t;

	/* Its end on one CPU, and its begin on the other one, were lost. */
	switched(1500, 9, 1, SWITCH_IN, 0, -1);
	switched(1600, 9, 2, SWITCH_IN, 0, -1);
	((struct record_switch *)records[n_records - 1])->cpu = 2;
	switched(1800, 2, 9, SWITCH_OUT, 1, 202);
	((struct record_switch *)records[n_records - 1])->cpu = 2;
	switched(2000, 1, 9, SWITCH_OUT, 1, 202);
	((struct record_switch *)records[n_records - 1])->cpu = 2;
	t = run();
	CHECK_EQ(t->n_slices, 2);
	CHECK_EQ(t->slices[1].start_ns, 1800);
	CHECK_EQ(t->slices[1].cpu, 2);
	timeline_free(t);
}

TEST(what_a_thread_is_inside_of_ends_with_it)
{
	struct record_thread *r;
	struct timeline *t;

	probe2(2000, 1, S_WORK, 300, 1, 2);
	r = add(2500, 1, RECORD_EXIT, sizeof(*r));
	r->pid = 77;
	r = add(2600, 1, RECORD_FORK, sizeof(*r));
	r->pid = 77;
	probe2(3000, 1, S_WORK, 200, 3, 4);
	t = run();
	for (uint64_t i = 0; i < t->n_spans; i++)
		CHECK(t->spans[i].start_ns >= 3000 || t->spans[i].end_ns <= 2500);
	timeline_free(t);
}

TEST(slices_of_a_cpu_that_begin_together_are_in_the_order_of_a_line)
{
	struct timeline *t;

	switched(1500, 9, 1, SWITCH_IN, 0, -1);
	switched(1500, 1, 2, SWITCH_OUT | SWITCH_IN, 1, 202);
	switched(1700, 2, 9, SWITCH_OUT, 1, 202);
	t = run();
	CHECK_EQ(t->n_slices, 2);
	CHECK_EQ(t->slices[0].end_ns, 1700);
	CHECK_EQ(t->slices[1].end_ns, 1500);
	timeline_free(t);
}

TEST(waits_end_when_the_thread_that_had_the_cpu_is_first_seen_then)
{
	enum { N = 600 }; /* the table grows meanwhile */
	struct timeline *t;
	uint32_t tid;

	for (tid = 1; tid <= N; tid++)
		switched(1500 + tid, tid, 0, SWITCH_OUT | SWITCH_PREEMPTED, 0, -1);
	for (tid = 1; tid <= N; tid++) {
		switched(2500 + tid, 10000 + tid, tid, SWITCH_IN, 0, -1);
		((struct record_switch *)records[n_records - 1])->had_ns = UINT64_MAX;
	}
	t = run();
	for (tid = 1; tid <= N; tid++)
		expect(t, "preempted", tid - 1, 1500 + tid, 2500 + tid);
	timeline_free(t);
}

static struct record_quota *quota(uint64_t time, uint32_t cgroup, uint64_t quota_ns)
{
	struct record_quota *r = add(time, 0, RECORD_QUOTA, sizeof(*r));

	r->cgroup = cgroup;
	r->quota_ns = quota_ns;
	r->period_ns = 100;
	return r;
}

static const char *cgroup_of(const struct timeline *t, const struct span *s)
{
	CHECK_EQ(s->kind, SPAN_THROTTLED);
	return s->quota < 0 ? "none" : t->names[t->quotas[s->quota].name].name;
}

TEST(a_throttled_thread_waits_for_the_quota_of_its_cgroup)
{
	const uint16_t left = SWITCH_OUT | SWITCH_PREEMPTED;
	struct record_quota *r;
	struct timeline *t;

	switched(1500, 9, 1, SWITCH_IN, 0, -1);
	/* Another CPU's record of the cgroup comes a little later, and one of a change. */
	switched(2000, 1, 0, left | SWITCH_THROTTLED, 7, -1);
	r = quota(2001, 7, 20);
	memcpy(r->names, "inner", 6);
	memcpy(r->names[1], "outer", 6);
	quota(2002, 7, 30);
	switched(2300, 0, 1, SWITCH_IN, 0, -1);
	switched(2400, 1, 9, left, 0, -1);
	switched(2450, 9, 1, SWITCH_IN, 0, -1);
	/* Its cgroup is unknown. */
	switched(2500, 1, 9, left | SWITCH_THROTTLED, 0, -1);
	switched(2600, 9, 1, SWITCH_IN, 0, -1);
	/* Before 6.18 a woken thread may have to wait as well. */
	switched(2700, 1, 9, left | SWITCH_THROTTLED, 8, -1);
	r = quota(2700, 8, 1);
	memset(r->names, 'x', sizeof(r->names));
	r->is_deeper = 1;
	switched(2800, 9, 1, SWITCH_IN, 0, -1);
	switched(2900, 1, 9, SWITCH_OUT, 1, 202);
	woken(3000, 1, 2, 202);
	((struct record *)records[n_records - 1])->site = WAKE_THROTTLED;
	switched(3100, 9, 1, SWITCH_IN, 0, -1);
	t = run();
	CHECK_EQ(t->n_quotas, 2);
	CHECK_EQ(t->quotas[0].quota_ns, 30);
	CHECK_EQ(t->quotas[0].period_ns, 100);
	CHECK_STR(cgroup_of(t, expect(t, "throttled", 0, 2000, 2300)), "/outer/inner");
	CHECK_EQ(expect(t, "preempted", 0, 2400, 2450)->kind, SPAN_RUNNABLE);
	CHECK_STR(cgroup_of(t, expect(t, "throttled", 1, 2500, 2600)), "none");
	CHECK_EQ(strlen(cgroup_of(t, expect(t, "throttled", 2, 2700, 2800))),
		 strlen("…") + RECORD_CGROUP_NAMES * RECORD_CGROUP_NAME_SIZE);
	expect(t, "futex", 0, 2900, 3000);
	CHECK_EQ(expect(t, "throttled", 3, 3000, 3100)->quota, 1);
	CHECK_STR(t->names[t->slices[0].reason].name, "throttled");
	timeline_free(t);
}

/* The thread that is named for the wait between 2000 and 4000: 9 was given the CPU, and 8 left it.
 */
static uint32_t named_for(uint64_t had_ns, bool is_old)
{
	struct record_switch *r;
	struct timeline *t;
	uint32_t tid;

	switched(1500, 9, 1, SWITCH_IN, 0, -1);
	switched(2000, 1, 9, SWITCH_OUT | SWITCH_PREEMPTED, 0, -1);
	switched(4000, 8, 1, SWITCH_IN, 0, -1);
	r = (void *)&space[n_records - 1];
	if (!is_old)
		r->had_ns = had_ns;
	t = run();
	tid = t->threads[expect(t, "preempted", 0, 2000, 4000)->cpu_user].tid;
	timeline_free(t);
	return tid;
}

TEST(a_wait_for_a_cpu_names_the_thread_that_had_it_for_most_of_the_time)
{
	CHECK_EQ(named_for(300, false), 9);
	CHECK_EQ(named_for(1500, false), 8);
	/* Recordings of before have a state and a system call there. */
	CHECK_EQ(named_for(0, true), named_for(UINT64_MAX, false));
}

TEST(throttled_threads_wait_for_a_cpu_when_another_one_of_their_cgroup_and_cpu_runs_again)
{
	const uint16_t left = SWITCH_OUT | SWITCH_PREEMPTED | SWITCH_THROTTLED;
	struct record_switch *other;
	struct timeline *t;

	for (uint32_t tid = 1; tid <= 4; tid++)
		switched(1500, 9, tid, SWITCH_IN, 0, -1);
	quota(1500, 7, 20);
	quota(1500, 8, 20);
	switched(2000, 1, 2, left, 7, -1);
	switched(2010, 2, 4, left, 7, -1);
	switched(2020, 4, 0, left, 7, -1);
	/* Of another cgroup, and on another CPU. */
	switched(2030, 3, 0, left, 8, -1);
	other = add(2040, 5, RECORD_SWITCH, sizeof(*other));
	other->flags = left;
	other->cgroup = 7;
	other->cpu = 0;
	switched(3000, 0, 2, SWITCH_IN, 0, -1);
	switched(3150, 2, 8, left, 7, -1);
	switched(3200, 8, 1, SWITCH_IN, 0, -1);
	switched(3300, 1, 3, SWITCH_IN, 0, -1);
	switched(4000, 3, 2, SWITCH_IN, 0, -1);
	t = run();
	expect(t, "throttled", 0, 2000, 3000);
	expect(t, "throttled", 1, 2010, 3000);
	/* It was throttled again, after that renewal. */
	expect(t, "throttled", 2, 3150, 4000);
	CHECK_EQ(expect(t, "runqueue", 0, 3000, 3200)->kind, SPAN_RUNNABLE);
	CHECK_EQ(t->threads[expect(t, "runqueue", 0, 3000, 3200)->cpu_user].tid, 2);
	expect(t, "throttled", 3, 2030, 3300);
	/* They still wait at the end of the window. */
	expect(t, "throttled", 4, 2020, 3000);
	expect(t, "runqueue", 1, 3000, t->end_ns);
	expect(t, "throttled", 5, 2040, t->end_ns);
	timeline_free(t);
}

TEST(a_target_cannot_fill_the_table_of_quotas)
{
	struct timeline *t;

	switched(1500, 9, 1, SWITCH_IN, 0, -1);
	for (uint32_t i = 1; i <= TIMELINE_QUOTAS_MAX; i++)
		quota(1500, i, 20);
	quota(1600, TIMELINE_QUOTAS_MAX + 1, 20);
	switched(2000, 1, 0, SWITCH_OUT | SWITCH_PREEMPTED | SWITCH_THROTTLED,
		 TIMELINE_QUOTAS_MAX + 1, -1);
	switched(2300, 0, 1, SWITCH_IN, 0, -1);
	t = run();
	CHECK_EQ(t->n_quotas, TIMELINE_QUOTAS_MAX);
	CHECK_STR(cgroup_of(t, expect(t, "throttled", 0, 2000, 2300)), "none");
	timeline_free(t);
}

TEST(a_wait_for_a_cpu_names_the_thread_that_had_it_longest)
{
	struct timeline *t;

	/* Woken while 9 has the CPU; 2 has it last, 8 the most of the time. */
	switched(1500, 9, 1, SWITCH_IN, 0, -1);
	switched(2000, 1, 9, SWITCH_OUT, 1, 202);
	woken(2100, 1, 9, 202);
	switched(2200, 9, 2, SWITCH_IN, 0, -1);
	switched(2250, 2, 8, SWITCH_OUT | SWITCH_PREEMPTED, 0, -1);
	switched(2900, 8, 2, SWITCH_IN, 0, -1);
	switched(3000, 2, 1, SWITCH_OUT | SWITCH_IN, 1, 202);
	/* Preempted by 2, which soon leaves the CPU to 8. */
	switched(4000, 1, 2, SWITCH_OUT | SWITCH_IN | SWITCH_PREEMPTED, 0, -1);
	switched(4100, 2, 8, SWITCH_OUT, 1, 202);
	switched(4500, 8, 1, SWITCH_IN, 0, -1);
	t = run();
	CHECK_EQ(t->threads[expect(t, "runqueue", 0, 2100, 3000)->cpu_user].tid, 8);
	CHECK_EQ(t->threads[expect(t, "preempted", 0, 4000, 4500)->cpu_user].tid, 8);
	timeline_free(t);
}

TEST(a_wait_for_an_idle_cpu_names_no_thread)
{
	struct timeline *t;

	switched(1500, 9, 1, SWITCH_IN, 0, -1);
	switched(2000, 1, 9, SWITCH_OUT, 1, 202);
	woken(2100, 1, 9, 202);
	switched(2200, 0, 1, SWITCH_IN, 0, -1);
	t = run();
	CHECK_EQ(expect(t, "runqueue", 0, 2100, 2200)->cpu_user, -1);
	timeline_free(t);
}

TEST(an_interrupted_thread_is_not_taken_for_the_waker)
{
	static const int32_t
		calls[] = { -1, 0 /* read */,
			    1 /* write: wakes readers, not threads that wait for a futex */ };

	for (unsigned i = 0; i < ARRAY_SIZE(calls); i++) {
		struct timeline *t;

		switched(1500, 9, 2, SWITCH_IN, 0, -1);
		switched(1600, 9, 1, SWITCH_IN, 0, -1);
		switched(2100, 1, 9, SWITCH_OUT, 1, 202);
		woken(2300, 1, 2, calls[i]);
		t = run();
		CHECK_EQ(expect(t, "futex", 0, 2100, 2300)->waker, -1);
		timeline_free(t);
	}
}

TEST(shares_count_only_time_inside_runs)
{
	struct timeline *t;

	switched(1500, 9, 1, SWITCH_IN, 0, -1);
	probe(2000, 1, S_RUN, 500, 0, 41);
	switched(2100, 1, 9, SWITCH_OUT, 1, 202);
	woken(2300, 1, 2, 202);
	switched(2400, 9, 1, SWITCH_IN, 0, -1);
	probe(3000, 1, S_RUN_END, 450, 0, 0);
	switched(3100, 1, 9, SWITCH_OUT, 1, 202);
	t = run();
	CHECK_EQ(t->blocked_ns, 200);
	CHECK_EQ(t->runnable_ns, 100);
	CHECK_EQ(t->running_ns, 700);
	timeline_free(t);
}

TEST(spans_are_sorted_by_thread_start_and_length)
{
	struct timeline *t;

	probe(8000, 1, S_RUN, 500, 0, 1);
	probe(8000, 2, S_RUN, 500, 0, 2);
	probe2(8000, 1, S_WORK, 400, 1, 0xc1);
	probe(8100, 1, S_OP, 300, 7, 0xa0);
	probe(8200, 1, S_OP_END, 300, 7, 0);
	probe(1200, 3, S_RUN_END, 450, 0, 0);
	t = run();
	for (uint64_t i = 1; i < t->n_spans; i++) {
		const struct span *a = &t->spans[i - 1], *b = &t->spans[i];

		CHECK(a->thread < b->thread ||
		      (a->thread == b->thread &&
		       (a->start_ns < b->start_ns ||
			(a->start_ns == b->start_ns && a->end_ns >= b->end_ns))));
	}
	timeline_free(t);
}

TEST(records_that_make_no_sense_do_no_harm)
{
	struct timeline *t;
	struct record *r;

	probe(2000, 1, N_SITES + 3, 100, 7, 0xa0);
	probe(2000, 1, S_WORK, 100, 7, 0xa0); /* without its second value */
	r = add(2001, 1, RECORD_PROBE, sizeof(struct record_probe));
	r->target = 200;
	r = add(2002, 1, RECORD_NAME, sizeof(struct record_name));
	r->target = 9;
	((struct record_name *)r)->name_size = UINT32_MAX;
	name(2003, 0xa0, "", "");
	((struct record_name *)add(2004, 1, RECORD_NAME, sizeof(struct record_name)))->name_size =
		UINT32_MAX;
	probe(2005, 1, S_OP_END, 100, 9, 0);
	probe(2006, 1, S_FREE, 100, 0, 0xffff);
	switched(2007, 5, 5, SWITCH_IN | SWITCH_OUT, 0, 9999);
	woken(2008, 1, 1, 202);
	t = run();
	CHECK_EQ(t->n_ops, 0);
	timeline_free(t);
}

TEST(a_record_of_an_unknown_kind_is_skipped)
{
	struct timeline *t;

	probe(2000, 1, S_RUN, 200, 0, 0);
	/* As short as a record can be: code that takes it for another kind reads beyond its end. */
	add(2001, 99, 200, sizeof(struct record));
	probe(2100, 1, S_RUN_END, 200, 0, 0);
	t = run();
	CHECK_EQ(t->n_threads, 1);
	CHECK_EQ(t->n_spans, 1);
	timeline_free(t);
}

TEST(frames_deeper_than_any_program_goes_are_left_out_and_counted)
{
	const struct correlate_target target = { .pid = 77,
						 .name = "server",
						 .packs = set_of(&pack) };
	struct record_probe r = {
		.head = { .kind = RECORD_PROBE, .site = S_RUN, .size8 = sizeof(r) / 8 }
	};
	struct correlator *c;
	struct timeline *t;

	CHECK_EQ(correlator_new(1000, &c), 0);
	CHECK_EQ(correlator_add_target(c, &target), 0);
	for (uint32_t i = 0; i < 70000; i++) {
		r.head.time = 2000 + i;
		r.head.tid = 1;
		r.stack = 1000000 - i;
		CHECK_EQ(correlator_feed(c, &r.head), 0);
	}
	/* What other threads do is shown as usual. */
	r.head.time = 80000;
	r.head.tid = 2;
	CHECK_EQ(correlator_feed(c, &r.head), 0);
	CHECK_EQ(correlator_finish(c, 90000, 5000000000, &t), 0);
	correlator_free(c);
	CHECK_EQ(t->n_spans_left_out, 70000 - FRAMES_MAX);
	CHECK_EQ(t->n_spans, FRAMES_MAX + 1);
	timeline_free(t);
}

TEST(threads_get_their_last_name_and_ended_processes_are_marked)
{
	struct timeline *t;
	struct record_thread *r;

	probe(2000, 1, S_RUN, 500, 0, 1);
	r = add(2500, 77, RECORD_EXIT, sizeof(*r));
	r->pid = 77;
	memcpy(r->comm, "main", 5);
	r = add(2600, 1, RECORD_THREAD, sizeof(*r));
	r->pid = 77;
	memcpy(r->comm, "0123456789abcdef", 16); /* without an end */
	t = run();
	CHECK_STR(t->threads[0].name, "0123456789abcde");
	CHECK(t->processes[0].ended);
	timeline_free(t);
}

TEST(a_process_ends_with_its_last_thread_whichever_that_is)
{
	for (unsigned last = 0; last < 2; last++) {
		struct timeline *t;
		struct record_thread *r;

		probe(2000, 1, S_RUN, 500, 0, 1);
		r = add(2500, 77, RECORD_EXIT, sizeof(*r));
		r->pid = 77;
		r->exit = EXIT_OTHERS_LIVE;
		if (last) {
			r = add(2600, 1, RECORD_EXIT, sizeof(*r));
			r->pid = 77;
			r->exit = EXIT_LAST;
		}
		t = run();
		CHECK_EQ(t->processes[0].ended, last);
		timeline_free(t);
	}
}

TEST(without_end_probes_an_op_ends_where_the_next_one_starts_or_the_executor_returns)
{
	struct timeline *t;

	how.ops_at_entry = true;
	name(1500, 0xa0, "a", "Mul");
	name(1500, 0xb0, "b", "Mul");
	name(1500, 0xc0, "c", "Mul");
	probe2(1900, 1, S_WORK, 400, 1, 0xc1);
	probe(2000, 1, S_OP, 300, 7, 0xa0);
	switched(2100, 1, 0, SWITCH_OUT, 1, 202); /* within a: it continues */
	switched(2300, 0, 1, SWITCH_IN, 0, -1);
	probe(2600, 1, S_OP, 300, 8, 0xb0);
	probe2(2700, 1, S_FINISH, 250, 1,
	       0xc1); /* deeper than the op was: it has returned all the same */
	probe(2800, 1, S_OP, 300, 9, 0xc0);
	switched(3000, 1, 0, SWITCH_OUT, 1, 202); /* c is over: nothing comes after it */
	switched(5000, 0, 1, SWITCH_IN, 0, -1);
	probe2(5100, 1, S_WORK, 400, 1, 0xc1);
	t = run();
	CHECK_EQ(expect(t, "a:Mul", 0, 2000, 2600)->flags, SPAN_END_NOT_SEEN);
	expect(t, "b:Mul", 0, 2600, 2700);
	expect(t, "c:Mul", 0, 2800, 3000);
	CHECK(t->ops_at_entry);
	timeline_free(t);
}

TEST(without_end_probes_an_op_continues_after_its_thread_was_preempted)
{
	struct timeline *t;

	how.ops_at_entry = true;
	name(1500, 0xa0, "a", "Mul");
	probe2(1900, 1, S_WORK, 400, 1, 0xc1);
	probe(2000, 1, S_OP, 300, 7, 0xa0);
	switched(2010, 1, 0, SWITCH_OUT | SWITCH_PREEMPTED, 0, -1);
	switched(2020, 0, 1, SWITCH_IN, 0, -1);
	probe2(5100, 1, S_WORK, 400, 1, 0xc1);
	t = run();
	expect(t, "a:Mul", 0, 2000, 5100);
	timeline_free(t);
}

TEST(without_end_probes_nested_ops_keep_their_outer_one)
{
	struct timeline *t;

	how.ops_at_entry = true;
	name(1500, 0xa0, "outer", "Call");
	name(1500, 0xb0, "inner", "Mul");
	name(1500, 0xc0, "next", "Mul");
	probe2(1900, 1, S_WORK, 400, 1, 0xc1);
	probe(2000, 1, S_OP, 300, 7, 0xa0);
	probe2(2050, 1, S_WORK, 200, 2, 0xc2); /* the function that the outer one calls */
	probe(2100, 1, S_OP, 100, 8, 0xb0);
	probe(2500, 1, S_OP, 300, 9, 0xc0);
	probe2(2700, 1, S_FINISH, 250, 1, 0xc1);
	t = run();
	expect(t, "outer:Call", 0, 2000, 2500);
	expect(t, "inner:Mul", 0, 2100, 2500);
	expect(t, "next:Mul", 0, 2500, 2700);
	timeline_free(t);
}

TEST(a_shed_kind_ends_there_and_the_others_continue)
{
	struct timeline *t;

	how.shed = KIND_OPS;
	how.shed_ns = 2400;
	name(1500, 0xa0, "a", "Mul");
	probe(1800, 1, S_RUN, 500, 0, 3);
	probe2(1900, 1, S_WORK, 400, 1, 0xc1);
	probe(2000, 1, S_OP, 300, 7, 0xa0);
	probe(2500, 1, S_OP, 300, 8,
	      0xa0); /* its probe was detached a little later than that of the end */
	probe2(2700, 1, S_WORK, 400, 1, 0xc1);
	probe(3000, 1, S_RUN_END, 450, 0, 0);
	t = run();
	CHECK_EQ(expect(t, "a:Mul", 0, 2000, 2400)->flags, SPAN_TRUNCATED_END);
	CHECK_EQ(t->n_ops, 1);
	CHECK(find(t, "Work", 1) != NULL);
	expect(t, "Run", 0, 1800, 3000);
	CHECK_EQ(t->n_gaps, 1);
	CHECK_EQ(t->gaps[0].start_ns, 2400);
	CHECK_STR(t->gaps[0].text, "too expensive");
	timeline_free(t);
}

TEST(operations_are_shown_again_after_a_pause)
{
	struct timeline *t;

	how.shed = KIND_OPS;
	how.shed_ns = 2400;
	how.resumed_ns = 3000;
	name(1500, 0xa0, "a", "Mul");
	probe(1800, 1, S_RUN, 500, 0, 3);
	probe2(1900, 1, S_WORK, 400, 1, 0xc1);
	probe(2000, 1, S_OP, 300, 7, 0xa0);
	probe(2500, 1, S_OP, 300, 8, 0xa0);  /* while some probes are being detached, ... */
	probe(2950, 1, S_OP, 300, 9, 0xa0);  /* ... or attached again */
	probe(3100, 1, S_OP_END, 290, 9, 0); /* its begin does not count */
	probe(3200, 1, S_OP, 300, 10, 0xa0);
	probe(3300, 1, S_OP_END, 290, 10, 0);
	probe2(3400, 1, S_FINISH, 250, 1, 0xc1);
	probe(3500, 1, S_RUN_END, 450, 0, 0);
	t = run();
	CHECK_EQ(expect(t, "a:Mul", 0, 2000, 2400)->flags, SPAN_TRUNCATED_END);
	CHECK_EQ(expect(t, "a:Mul", 1, 3200, 3300)->flags, 0);
	CHECK_EQ(t->n_ops, 2);
	CHECK_EQ(t->n_gaps, 1);
	CHECK(t->gaps[0].start_ns == 2400 && t->gaps[0].end_ns == 3000 &&
	      t->gaps[0].of == GAP_OF_OPS);
	timeline_free(t);
}

TEST(shed_switches_end_what_a_thread_waited_for)
{
	struct timeline *t;

	how.shed = KIND_SWITCHES;
	how.shed_ns = 2400;
	probe(1800, 1, S_RUN, 500, 0, 3);
	switched(2000, 1, 0, SWITCH_OUT, 1, 202);
	switched(2600, 0, 1, SWITCH_IN, 0, -1);
	probe(3000, 1, S_RUN_END, 450, 0, 0);
	t = run();
	CHECK_EQ(expect(t, "futex", 0, 2000, 2400)->flags & SPAN_TRUNCATED_END, SPAN_TRUNCATED_END);
	expect(t, "Run", 0, 1800, 3000);
	timeline_free(t);
}

TEST(a_layout_that_links_no_executor_is_rejected)
{
	struct timeline *t;

	/* The word at the place of the call is the same pointer, and the step is another one. */
	for (unsigned i = 0; i < 20; i++) {
		probe(2000 + i * 100, 1, S_RUN, 500, 0, 10 + i);
		probe2(2010 + i * 100, 1, S_START, 450, 10 + i, 0xc1);
		probe2(2020 + i * 100, 2, S_WORK, 400, 0x7f0000000000, 0xc1);
		probe(2090 + i * 100, 1, S_RUN_END, 450, 0, 0);
	}
	t = run();
	for (uint64_t i = 0; i < t->n_spans; i++)
		CHECK(t->spans[i].kind != SPAN_EXECUTOR || !t->spans[i].context);
	CHECK_EQ(t->n_warnings, 1);
	timeline_free(t);
}

TEST(after_an_exec_earlier_state_of_the_process_is_gone)
{
	const struct correlate_target before = { .pid = 77,
						 .name = "before",
						 .packs = set_of(&pack) };
	struct correlate_target after = {
		.pid = 77, .name = "after", .packs = set_of(&pack), .since_ns = 3000
	};
	struct correlator *c = NULL;
	struct timeline *t = NULL;
	struct record_thread *r;

	name(1999, 0xa0, "old", "Mul");
	probe(2000, 77, S_OP, 100, 7, 0xa0);
	r = add(2500, 77, RECORD_EXEC, sizeof(*r));
	r->pid = 77;
	probe(2600, 77, S_OP, 100, 7,
	      0xa0); /* the new program has something else at this address */
	name(3100, 0xa0, "new", "Mul");
	((struct record *)records[n_records - 1])->target = 1;
	probe(3200, 77, S_OP, 100, 8, 0xa0);
	((struct record *)records[n_records - 1])->target = 1;
	probe(3300, 77, S_OP_END, 100, 8, 0);
	((struct record *)records[n_records - 1])->target = 1;
	CHECK_EQ(correlator_new(1000, &c), 0);
	CHECK_EQ(correlator_add_target(c, &before), 0);
	/* It may be known as the new program before the record of the exec is read. */
	CHECK_EQ(correlator_add_target(c, &after), 0);
	for (unsigned i = 0; i < n_records; i++)
		CHECK_EQ(correlator_feed(c, records[i]), 0);
	CHECK_EQ(correlator_finish(c, 9000, 5000000000, &t), 0);
	CHECK_EQ(expect(t, "old:Mul", 0, 2000, 2500)->flags, SPAN_TRUNCATED_END);
	CHECK(find(t, "old:Mul", 1) == NULL);
	expect(t, "new:Mul", 0, 3200, 3300);
	CHECK(t->processes[0].ended && !t->processes[1].ended);
	timeline_free(t);
	correlator_free(c);
	n_records = 0;
}

CHECK_MAIN()
