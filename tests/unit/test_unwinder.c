/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks and their copies, of a process whose code is not known. */
#include "daemon/capture/unwind/unwinder.h"
#include "lib/base/macro.h"
#include "tests/unit/check.h"

#define WORDS 64

/* A stack with two frames of the program, one of the kernel, and a word that is none. */
struct sample {
	struct record_stack stack;
	uint64_t words[4];
};

struct copy {
	struct record_stack_copy head;
	uint64_t words[4];
};

static struct passed_on {
	uint64_t words[WORDS];
	size_t size;
	unsigned n;
} result;

static void on_stack(const struct record *record, size_t size, void *data)
{
	CHECK(size <= sizeof(result.words));
	memcpy(result.words, record, MIN(size, sizeof(result.words)));
	result.size = size;
	result.n++;
}

static struct sample make_sample(uint64_t time, uint32_t tid)
{
	return (struct sample){
		.stack = { .head = { .time = time,
				     .tid = tid,
				     .kind = RECORD_STACK,
				     .size8 = sizeof(struct sample) / 8 },
			   .n_user = 2,
			   .n_kernel = 1 },
		.words = { 0x1000, 0x2000, 7, 8 },
	};
}

static struct copy make_copy(uint64_t time, uint32_t tid)
{
	return (struct copy){
		.head = { .head = { .time = time, .tid = tid, .kind = RECORD_STACK_COPY },
			  .ip = 0x1000,
			  .sp = 0x7000,
			  .n_bytes = sizeof(((struct copy *)NULL)->words) },
	};
}

static struct unwinder *begin(void)
{
	struct unwinder *u = NULL;

	result = (struct passed_on){};
	CHECK_EQ(unwinder_new(NULL, on_stack, NULL, &u), 0);
	return u;
}

TEST(a_stack_without_a_copy_is_passed_on_as_it_is)
{
	const struct sample s = make_sample(5, 6);
	struct unwinder_counts counts;
	struct unwinder *u = begin();

	CHECK(unwinder_add(u, &s, sizeof(s)));
	CHECK_EQ(result.size, sizeof(s));
	CHECK(!memcmp(result.words, &s, sizeof(s)));
	unwinder_count(u, &counts);
	CHECK_EQ(counts.plain, 1);
	CHECK_EQ(counts.stacks, 0);
	unwinder_free(u);
}

TEST(only_the_frames_of_the_program_are_replaced)
{
	const struct copy others[] = { make_copy(5, 7), make_copy(4, 6) }, c = make_copy(5, 6);
	const struct sample s = make_sample(5, 6);
	struct unwinder_counts counts;
	struct unwinder *u = begin();
	struct record_stack head;

	CHECK(unwinder_add(u, &others[0], sizeof(others[0])));
	CHECK(unwinder_add(u, &c, sizeof(c)));
	CHECK(unwinder_add(u, &others[1], sizeof(others[1])));
	CHECK(unwinder_add(u, &s, sizeof(s)));
	CHECK_EQ(result.n, 1);
	CHECK_EQ(result.size, sizeof(s));
	memcpy(&head, result.words, sizeof(head));
	CHECK_EQ(head.head.kind, RECORD_STACK);
	CHECK_EQ(head.head.size8, sizeof(s) / 8);
	CHECK_EQ(head.n_user, 2);
	CHECK_EQ(head.n_kernel, 1);
	/* The code is not known: what called it is not guessed. */
	CHECK_EQ(result.words[3], 0x1000);
	CHECK_EQ(result.words[4], RECORD_FRAME_CUT);
	CHECK_EQ(result.words[5], 7);
	CHECK_EQ(result.words[6], 8);
	unwinder_count(u, &counts);
	CHECK_EQ(counts.stacks, 1);
	CHECK_EQ(counts.cut, 1);
	CHECK_EQ(counts.plain, 0);
	CHECK_EQ(unwinder_oldest(u), UINT64_MAX);
	unwinder_free(u);
}

TEST(records_that_state_more_than_they_have_are_refused)
{
	struct unwinder *u = begin();
	struct sample s = make_sample(5, 6);
	struct copy c = make_copy(5, 6);

	c.head.n_bytes++;
	CHECK(!unwinder_add(u, &c, sizeof(c)));
	c = make_copy(5, 6);
	c.head.n_below = c.head.n_bytes + 1;
	CHECK(!unwinder_add(u, &c, sizeof(c)));
	CHECK(!unwinder_add(u, &c, sizeof(c.head) - 8));
	s.stack.n_user = 4;
	CHECK(!unwinder_add(u, &s, sizeof(s)));
	s.stack.n_user = RECORD_USER_FRAMES + 1;
	CHECK(!unwinder_add(u, &s, sizeof(s)));
	CHECK(!unwinder_add(u, &s, sizeof(s.stack) - 8));
	CHECK_EQ(result.n, 0);
	unwinder_free(u);
}

CHECK_MAIN()
