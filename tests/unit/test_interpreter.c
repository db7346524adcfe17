/* SPDX-License-Identifier: Apache-2.0 */
/* Where the broker finds a target's interpreter: in the file's code and data, or nowhere. */
#include "daemon/broker/interpreter.h"

#include <errno.h>

#include "daemon/plan/packs.h"
#include "tests/unit/check.h"

static struct record_interpreter added;
static unsigned n_added;
static int result;

/* In place of the kernel's. */
int attachment_add_interpreter(struct attachment *a, unsigned target,
			       const struct record_interpreter *interpreter)
{
	CHECK_EQ(target, 3);
	added = *interpreter;
	n_added++;
	return result;
}

/* A position-independent library: code at 0x1000 of the file is at 0x2000, data at 0x5000 at
 * 0x7000. */
static struct mapped_file file = {
	.pid = 1,
	.start = 0x7f0000002000,
	.offset = 0x1000,
	.ranges = { .n = 1,
		    .n_data = 1,
		    .range = { { .start = 0x1000, .end = 0x3000, .address = 0x2000 } },
		    .data = { { .start = 0x5000, .end = 0x6000, .address = 0x7000 } } },
};

static struct plan plan;

static struct plan_site site_of_evaluator(void)
{
	struct plan_site site = { .function = 0x1100,
				  .size = 0x200,
				  .objects = { 0x7010, 0x7800 } };

	plan.packs = pack_set_get(UINT64_MAX);
	file.plan = &plan;
	CHECK(plan.packs);
	while (plan.packs->rows[site.spec]->work != WORK_SCRIPT)
		site.spec++;
	return site;
}

TEST(addresses_are_those_in_the_process)
{
	struct plan_site site = site_of_evaluator();

	n_added = 0;
	CHECK_EQ(interpreter_add(&file, &site, NULL, 3), 0);
	CHECK_EQ(n_added, 1);
	CHECK_EQ(added.evaluator, 0x7f0000002100);
	CHECK_EQ(added.evaluator_end, 0x7f0000002300);
	CHECK_EQ(added.all_code, 0x7f0000002000);
	CHECK_EQ(added.all_code_end, 0x7f0000004000);
	CHECK_EQ(added.runtime, 0x7f0000007010);
	CHECK_EQ(added.code_type, 0x7f0000007800);
	CHECK_EQ(added.layout.frame_code, 32);
}

TEST(what_lies_outside_of_the_file_is_not_read)
{
	struct plan_site site = site_of_evaluator();

	n_added = 0;
	site.objects[OBJECT_RUNTIME] = 0x8000;
	CHECK_EQ(interpreter_add(&file, &site, NULL, 3), 0);
	site = site_of_evaluator();
	site.objects[OBJECT_CODE_TYPE] = 0x6fff;
	CHECK_EQ(interpreter_add(&file, &site, NULL, 3), 0);
	site = site_of_evaluator();
	site.size = 0x10000;
	CHECK_EQ(interpreter_add(&file, &site, NULL, 3), 0);
	site = site_of_evaluator();
	site.function = 0x5100;
	CHECK_EQ(interpreter_add(&file, &site, NULL, 3), 0);
	CHECK_EQ(n_added, 0);
}

TEST(code_can_lie_in_two_pieces_at_unequal_distances)
{
	struct mapped_file split = file;
	struct plan_site site = site_of_evaluator();

	/* 0x10000 of the file is at 0x90000; the first piece is what was looked at. */
	split.ranges.n = 2;
	split.ranges.range[1] =
		(struct code_range){ .start = 0x10000, .end = 0x12000, .address = 0x90000 };
	site.function = 0x11000;
	n_added = 0;
	CHECK_EQ(interpreter_add(&split, &site, NULL, 3), 0);
	CHECK_EQ(n_added, 1);
	CHECK_EQ(added.evaluator, 0x7f0000091000);
	CHECK_EQ(added.evaluator_end, 0x7f0000091200);
	CHECK_EQ(added.all_code, 0x7f0000002000);
	CHECK_EQ(added.all_code_end, 0x7f0000092000);
	CHECK_EQ(added.runtime, 0x7f0000007010);
}

TEST(without_a_program_for_it_stacks_have_the_evaluator)
{
	struct plan_site site = site_of_evaluator();

	result = -EOPNOTSUPP;
	CHECK_EQ(interpreter_add(&file, &site, NULL, 3), 0);
	result = -ENOMEM;
	CHECK_EQ(interpreter_add(&file, &site, NULL, 3), -ENOMEM);
}

CHECK_MAIN()
