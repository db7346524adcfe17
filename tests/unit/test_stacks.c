/* SPDX-License-Identifier: Apache-2.0 */
/* Sampled stacks: records, what they become, and the work that they belong to. */
#include "daemon/timeline/sample_work.h"
#include "tests/unit/fed.h"

TEST_PACK(NULL, 0);

static struct {
	struct record_stack head;
	__u64 frames[RECORD_USER_FRAMES + RECORD_KERNEL_FRAMES];
} record;

static void feed_stack(uint64_t time, uint32_t tid, const uint64_t *user, unsigned n_user,
		       const uint64_t *kernel, unsigned n_kernel)
{
	memset(&record, 0, sizeof(record));
	record.head.head = (struct record){ .time = time,
					    .tid = tid,
					    .kind = RECORD_STACK,
					    .size8 = (__u8)(3 + n_user + n_kernel) };
	record.head.n_user = (__u16)n_user;
	record.head.n_kernel = (__u16)n_kernel;
	for (unsigned i = 0; i < n_user; i++)
		record.frames[i] = user[i];
	for (unsigned i = 0; i < n_kernel; i++)
		record.frames[n_user + i] = kernel[i];
	CHECK_EQ(correlator_feed(c, &record.head.head), 0);
}

static void feed_name(uint64_t time, uint32_t number, const char *name)
{
	struct record_kernel_name r = {
		.head = { .time = time, .kind = RECORD_KERNEL_NAME, .size8 = sizeof(r) / 8 },
		.number = number
	};

	strncpy(r.name, name, sizeof(r.name));
	CHECK_EQ(correlator_feed(c, &r.head), 0);
}

TEST(samples_have_the_frames_of_the_kernel_before_those_of_the_thread)
{
	static const uint64_t user[] = { 0x1000, 0x2000 }, kernel[] = { 2, 9 };
	const struct stacks *s;
	struct timeline *t;

	begin_with(&pack);
	feed_stack(2000, 5, user, 2, kernel, 2);
	feed_stack(2500, 5, user, 2, kernel, 2);
	feed_stack(3000, 6, user, 1, NULL, 0);
	/* Another CPU may send the name a moment later. */
	feed_name(3000, 2, "vfs_read");
	t = finish();
	s = &t->stacks;
	CHECK_EQ(s->n_samples, 3);
	CHECK_EQ(s->n_stacks, 2);
	CHECK_EQ(s->stacks[0].n, 4);
	CHECK_EQ(s->samples[1].stack, s->samples[0].stack);
	CHECK_STR(stack_function_at(s, &s->stacks[0], 0)->name, "vfs_read");
	CHECK_STR(stack_function_at(s, &s->stacks[0], 0)->file, STACK_KERNEL_FILE);
	CHECK_STR(stack_function_at(s, &s->stacks[0], 1)->name, "kernel");
	/* An instruction, and the call that returns to the next address. */
	CHECK_EQ(s->frames[s->lists[2]].address, 0x1000);
	CHECK_EQ(s->frames[s->lists[3]].address, 0x1fff);
	CHECK_EQ(t->threads[s->samples[2].thread].tid, 6);
	timeline_free(t);
}

TEST(functions_that_are_missing_are_named_so)
{
	static const uint64_t user[] = { 0x1000, 0x2000, RECORD_FRAME_CUT };
	const struct stacks *s;
	struct timeline *t;

	begin_with(&pack);
	feed_stack(2000, 5, user, 3, NULL, 0);
	t = finish();
	s = &t->stacks;
	CHECK_EQ(s->stacks[0].n, 3);
	CHECK_STR(stack_function_at(s, &s->stacks[0], 2)->name, "[truncated]");
	CHECK_STR(stack_function_at(s, &s->stacks[0], 2)->file, "");
	timeline_free(t);
}

TEST(a_record_with_more_frames_than_bytes_is_ignored)
{
	static const uint64_t user[] = { 0x1000 };
	struct timeline *t;

	begin_with(&pack);
	feed_stack(2000, 5, user, 1, NULL, 0);
	record.head.n_user = 90;
	CHECK_EQ(correlator_feed(c, &record.head.head), 0);
	record.head.n_user = 0;
	record.head.n_kernel = 65535;
	CHECK_EQ(correlator_feed(c, &record.head.head), 0);
	record.head.n_kernel = 0;
	CHECK_EQ(correlator_feed(c, &record.head.head), 0);
	t = finish();
	CHECK_EQ(t->stacks.n_samples, 1);
	timeline_free(t);
}

TEST(a_function_of_two_files_is_two_functions)
{
	struct stacks s = {};
	uint32_t a, b, again;

	CHECK_EQ(stacks_function(&s, "main", "a", &a), 0);
	CHECK_EQ(stacks_function(&s, "main", "b", &b), 0);
	CHECK_EQ(stacks_function(&s, "main", "a", &again), 0);
	CHECK(a != b);
	CHECK_EQ(a, again);
	CHECK_EQ(s.n_functions, 2);
	stacks_done(&s);
}

TEST(samples_belong_to_the_innermost_operation_and_to_the_request_of_its_run)
{
	struct span spans[] = {
		{ .start_ns = 100, .end_ns = 900, .kind = SPAN_RUN, .context = 7, .request = 2 },
		{ .start_ns = 200,
		  .end_ns = 800,
		  .kind = SPAN_EXECUTOR,
		  .context = 7,
		  .thread = 1 },
		{ .start_ns = 300, .end_ns = 700, .kind = SPAN_OP, .name = 3, .thread = 1 },
		{ .start_ns = 400, .end_ns = 500, .kind = SPAN_OP, .name = 4, .thread = 1 },
	};
	struct segment segments[] = {
		{ .start_ns = 50,
		  .end_ns = 100,
		  .thread = 2,
		  .phase = PHASE_DECODE,
		  .activity = ACTIVITY_RUNNING },
		{ .start_ns = 100,
		  .end_ns = 900,
		  .thread = 1,
		  .phase = PHASE_EXECUTE_RUNNING,
		  .activity = ACTIVITY_RUNNING },
	};
	struct request requests[] = { {}, { .first_segment = 0, .n_segments = 2 } };
	struct timeline t = { .spans = spans,
			      .n_spans = 4,
			      .segments = segments,
			      .n_segments = 2,
			      .requests = requests,
			      .n_requests = 2 };
	static const struct {
		uint64_t at;
		uint32_t thread, op, request;
		enum phase phase;
	} expected[] = {
		{ 450, 1, 4, 2, PHASE_EXECUTE_RUNNING },
		{ 600, 1, 3, 2, PHASE_EXECUTE_RUNNING },
		{ 750, 1, STACK_NONE, 2, PHASE_EXECUTE_RUNNING },
		{ 60, 2, STACK_NONE, 2, PHASE_DECODE },
		{ 100, 2, STACK_NONE, 0, PHASE_COUNT },
		{ 120, 0, STACK_NONE, 2, PHASE_EXECUTE_RUNNING },
		{ 950, 1, STACK_NONE, 0, PHASE_COUNT },
	};
	static const uint32_t frames[] = { 0 };

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		CHECK_EQ(stacks_add(&t.stacks, expected[i].at, expected[i].thread, frames, 1), 0);
	CHECK_EQ(sample_work_find(&t), 0);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		CHECK_EQ(t.stacks.samples[i].op, expected[i].op);
		CHECK_EQ(t.stacks.samples[i].request, expected[i].request);
		CHECK_EQ(t.stacks.samples[i].phase, expected[i].phase);
	}
	stacks_done(&t.stacks);
}

CHECK_MAIN()
