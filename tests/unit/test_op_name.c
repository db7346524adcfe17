/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/xspace/op_name.h"
#include "tests/unit/check.h"

static const char *shown(const char *name, const char *display)
{
	static char buffer[64];

	return op_name_shown(
		&(struct span_name){ .name = (char *)name, .display = (char *)display }, buffer,
		sizeof(buffer));
}

TEST(names_that_pages_do_not_read_are_shown_as_names_that_they_do)
{
	CHECK_STR(shown("/layer/MatMul:MatMul", "MatMul"), "./layer/MatMul:MatMul");
	CHECK_STR(shown("fused /Fusion:FusedGemm", "FusedGemm"), "fused_/Fusion:FusedGemm");
	CHECK_STR(shown("a:b(c):my.op", "my.op"), "a_b_c_:_my_op");
	CHECK_STR(shown(":Add", "Add"), ".:Add");
}

TEST(other_names_stay)
{
	const char *const names[] = { "scope/op.1>x-y:MatMul", "_arg_x_0:_Arg", "SessionRun",
				      "ExecutorState::Process" };
	const char *const types[] = { "MatMul", "_Arg", NULL, "executor" };

	for (int i = 0; i < 4; i++)
		CHECK_STR(shown(names[i], types[i]), names[i]);
	/* Longer than the buffer. */
	CHECK_STR(
		shown("/0123456789012345678901234567890123456789012345678901234567890:Add", "Add"),
		"/0123456789012345678901234567890123456789012345678901234567890:Add");
}

TEST(names_that_differ_stay_different)
{
	struct span_name names[] = { { .name = (char *)"a b:Add", .display = (char *)"Add" },
				     { .name = (char *)"a_b:Add", .display = (char *)"Add" },
				     { .name = (char *)"a:b:Add", .display = (char *)"Add" },
				     { .name = (char *)"a_b_0:Add", .display = (char *)"Add" },
				     { .name = (char *)"a b", .display = NULL } };
	const struct timeline t = { .names = names, .n_names = 5 };
	char **shown;

	CHECK_EQ(op_names_make(&t, &shown), 0);
	CHECK_STR(shown[0], "a_b_1:Add");
	CHECK(!shown[1]);
	CHECK_STR(shown[2], "a_b_2:Add");
	CHECK(!shown[3] && !shown[4]);
	op_names_free(&t, shown);
}

CHECK_MAIN()
