/* SPDX-License-Identifier: Apache-2.0 */
/* Callers by rows that are made up, in stacks that are as well. */
#include <errno.h>

#include "daemon/capture/unwind/walk.h"
#include "lib/base/macro.h"
#include "tests/unit/check.h"

#define SP 0x7f0000001000ull
#define WORDS 64
#define FRAMES_MAX 16

/* Code of one kind begins at each of these addresses and has 16 bytes. */
enum kind {
	LEAF = 0x1000,    /* nothing on the stack but where it returns to */
	SMALL = 0x1010,   /* 16 bytes */
	FRAMED = 0x1020,  /* a frame pointer */
	LARGE = 0x1030,   /* more than a copy */
	FIRST = 0x1040,   /* no caller */
	HANDLED = 0x1050, /* a handler of signals returns there */
	ALIGNED = 0x1060, /* its caller by a word at rbp - 16 */
	TABLE = 0x1070,   /* a slot of a linkage table */
	BACK = 0x1080,    /* below the stack pointer */
	NO_ROW = 0x1090,
	NO_TABLE = 0x10a0,
	UNKNOWN_YET = 0x10b0,
	KEEPER = 0x10c0, /* FRAMED, after rbp was popped */
	CODE_END = 0x10d0,
};

static enum walk_code find(uint64_t address, struct unwind_row *ret, void *data)
{
	static const struct unwind_row rows[] = {
		{ LEAF, 8, 0, UNWIND_RSP, UNWIND_RBP_KEPT },
		{ SMALL, 24, 0, UNWIND_RSP, UNWIND_RBP_KEPT },
		{ FRAMED, 16, -2, UNWIND_RBP, UNWIND_RBP_AT_CFA },
		{ LARGE, 1 << 20, 0, UNWIND_RSP, UNWIND_RBP_KEPT },
		{ FIRST, 0, 0, UNWIND_OUTERMOST, 0 },
		{ HANDLED, 0, 0, UNWIND_SIGNAL, 0 },
		{ ALIGNED, -16, 0, UNWIND_RBP_WORD, UNWIND_RBP_AT_RBP },
		{ TABLE, 11, 0, UNWIND_PLT, UNWIND_RBP_KEPT },
		{ BACK, -8, 0, UNWIND_RSP, UNWIND_RBP_KEPT },
		{ KEEPER, 8, -2, UNWIND_RSP, UNWIND_RBP_AT_CFA },
	};

	if (address < LEAF || address >= CODE_END)
		return WALK_NO_CODE;
	switch (address & ~15ull) {
	case NO_ROW:
		return WALK_NO_ROW;
	case NO_TABLE:
		return WALK_NO_TABLE;
	case UNKNOWN_YET:
		return WALK_LATER;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].begin == (address & ~15ull))
			*ret = rows[i];
	return WALK_ROW;
}

static uint64_t stack[WORDS], frames[FRAMES_MAX];
static bool whole;

static int walk(uint64_t ip, uint64_t bp)
{
	const struct walk w = { .ip = ip,
				.sp = SP,
				.bp = bp,
				.start = SP,
				.stack = (const uint8_t *)stack,
				.size = sizeof(stack),
				.code = find };

	return walk_stack(&w, frames, FRAMES_MAX, &whole);
}

/* The address of a word of the stack. */
static uint64_t at(unsigned word)
{
	return SP + 8 * word;
}

static void put(unsigned word, uint64_t value)
{
	stack[word] = value;
}

TEST(functions_with_and_without_frame_pointers_take_turns)
{
	memset(stack, 0, sizeof(stack));
	put(0, SMALL + 5);
	put(3, FRAMED + 5);
	put(8, at(20));
	put(9, ALIGNED + 5);
	put(18, at(24));
	put(20, at(30));
	put(23, FIRST + 5);
	CHECK_EQ(walk(LEAF + 1, at(8)), 5);
	CHECK(whole);
	CHECK_EQ(frames[0], LEAF + 1);
	CHECK_EQ(frames[1], SMALL + 5);
	CHECK_EQ(frames[2], FRAMED + 5);
	CHECK_EQ(frames[3], ALIGNED + 5);
	CHECK_EQ(frames[4], FIRST + 5);
}

TEST(a_slot_of_a_linkage_table_has_one_word_more_behind_its_push)
{
	memset(stack, 0, sizeof(stack));
	put(0, SMALL + 5);
	put(1, FIRST + 5);
	CHECK_EQ(walk(TABLE + 11, 0), 2);
	CHECK_EQ(frames[1], FIRST + 5);
	put(0, FIRST + 5);
	CHECK_EQ(walk(TABLE + 10, 0), 2);
	CHECK_EQ(frames[1], FIRST + 5);
}

TEST(where_a_handler_interrupted_is_exact)
{
	memset(stack, 0, sizeof(stack));
	put(0, HANDLED + 1);
	/* struct ucontext from the next word on. */
	put(1 + 120 / 8, 0);
	put(1 + 160 / 8, at(40));
	put(1 + 168 / 8, LEAF);
	put(40, FIRST + 5);
	CHECK_EQ(walk(LEAF + 1, 0), 4);
	CHECK(whole);
	/* What a reader subtracts is added. */
	CHECK_EQ(frames[2], LEAF + 1);
	CHECK_EQ(frames[3], FIRST + 5);
}

TEST(a_call_at_the_end_of_its_function_is_in_that_function)
{
	memset(stack, 0, sizeof(stack));
	put(0, SMALL + 16);
	put(3, FIRST + 5);
	CHECK_EQ(walk(LEAF + 1, 0), 3);
	CHECK_EQ(frames[2], FIRST + 5);
}

TEST(a_caller_that_is_not_known_is_not_guessed)
{
	memset(stack, 0, sizeof(stack));
	put(0, LARGE + 5);
	CHECK_EQ(walk(LEAF + 1, at(2)), 2);
	CHECK(!whole);
	put(0, NO_ROW + 5);
	CHECK_EQ(walk(LEAF + 1, at(2)), 2);
	CHECK(!whole);
	put(0, BACK + 5);
	CHECK_EQ(walk(LEAF + 1, at(2)), 2);
	CHECK(!whole);
	/* Not code. */
	put(0, 0x123456);
	CHECK_EQ(walk(LEAF + 1, at(2)), 1);
	CHECK(!whole);
	CHECK_EQ(walk(0x123456, at(2)), 1);
	CHECK(!whole);
	put(0, UNKNOWN_YET + 5);
	CHECK_EQ(walk(LEAF + 1, at(2)), -EAGAIN);
	/* rbp points nowhere. */
	put(0, FRAMED + 5);
	CHECK_EQ(walk(LEAF + 1, 1), 2);
	CHECK_EQ(walk(LEAF + 1, UINT64_MAX), 2);
	CHECK_EQ(walk(LEAF + 1, SP - 16), 2);
	CHECK(!whole);
}

TEST(a_thread_can_begin_without_an_address_to_return_to)
{
	memset(stack, 0, sizeof(stack));
	put(0, SMALL + 5);
	CHECK_EQ(walk(LEAF + 1, 0), 2);
	CHECK(whole);
}

TEST(code_without_tables_is_followed_by_frame_pointers)
{
	memset(stack, 0, sizeof(stack));
	put(4, at(8));
	put(5, SMALL + 5);
	put(8, FIRST + 5);
	CHECK_EQ(walk(NO_TABLE + 1, at(4)), 3);
	CHECK(whole);
	CHECK_EQ(frames[1], SMALL + 5);
}

TEST(a_stack_without_end_has_as_many_frames_as_there_is_room_for)
{
	memset(stack, 0, sizeof(stack));
	for (unsigned i = 0; i < WORDS; i++)
		put(i, LEAF + 5);
	CHECK_EQ(walk(LEAF + 1, 0), FRAMES_MAX);
	CHECK(!whole);
	/* A frame pointer to itself. */
	put(4, at(4));
	put(5, FRAMED + 5);
	CHECK(walk(FRAMED + 1, at(4)) < FRAMES_MAX);
	CHECK(!whole);
}

TEST(beyond_the_copy_frame_pointers_are_believed_where_rows_state_them)
{
	uint64_t chain[] = { LEAF + 1, FRAMED + 6, FRAMED + 7, FRAMED + 8, FIRST + 5 };
	struct walk w = { .ip = LEAF + 1,
			  .sp = SP,
			  .bp = at(10),
			  .start = SP,
			  .stack = (const uint8_t *)stack,
			  .size = sizeof(stack),
			  .chain = chain,
			  .n_chain = ARRAY_SIZE(chain),
			  .code = find };

	memset(stack, 0, sizeof(stack));
	/* The leaf's caller, which following frame pointers skips. */
	put(0, FRAMED + 5);
	put(10, at(20));
	put(11, FRAMED + 6);
	put(20, at(1000));
	put(21, FRAMED + 7);
	CHECK_EQ(walk_stack(&w, frames, FRAMES_MAX, &whole), 6);
	CHECK(whole);
	CHECK_EQ(frames[1], FRAMED + 5);
	CHECK_EQ(frames[2], FRAMED + 6);
	CHECK_EQ(frames[3], FRAMED + 7);
	CHECK_EQ(frames[4], FRAMED + 8);
	CHECK_EQ(frames[5], FIRST + 5);
	/* A function without a frame pointer among them: what its caller is, is not known. */
	chain[3] = SMALL + 8;
	CHECK_EQ(walk_stack(&w, frames, FRAMES_MAX, &whole), 5);
	CHECK(!whole);
	/* Another chain than that of the copy. */
	chain[3] = FRAMED + 8;
	chain[2] = FRAMED + 9;
	CHECK_EQ(walk_stack(&w, frames, FRAMES_MAX, &whole), 4);
	CHECK(!whole);
}

TEST(what_was_popped_is_below_the_stack_pointer)
{
	const struct walk w = { .ip = KEEPER + 1,
				.sp = at(1),
				.bp = 5,
				.start = SP,
				.stack = (const uint8_t *)stack,
				.size = sizeof(stack),
				.code = find };

	memset(stack, 0, sizeof(stack));
	put(0, at(6));
	put(1, FRAMED + 5);
	put(7, FIRST + 5);
	CHECK_EQ(walk_stack(&w, frames, FRAMES_MAX, &whole), 3);
	CHECK(whole);
}

CHECK_MAIN()
