/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of operations. */
#include "daemon/export/summary/op_category.c"
#include "tests/unit/check.h"

TEST(forms_of_one_operation_are_in_one_category)
{
	static const char *const dots[] = {
		"MatMul",       "BatchMatMul", "BatchMatMulV2",         "BatchMatMulV3",
		"_FusedMatMul", "_MklMatMul",  "_MklNativeFusedMatMul", "_MklFusedBatchMatMulV2",
		"Einsum"
	};
	static const char *const convolutions[] = { "Conv2D", "Conv3D", "_FusedConv2D",
						    "_MklNativeConv2D", "DepthwiseConv2dNative" };

	for (size_t i = 0; i < ARRAY_SIZE(dots); i++)
		CHECK_STR(op_category(dots[i]), "dot");
	for (size_t i = 0; i < ARRAY_SIZE(convolutions); i++)
		CHECK_STR(op_category(convolutions[i]), "convolution");
	CHECK_STR(op_category("AddV2"), "elementwise");
	CHECK_STR(op_category("Relu6"), "elementwise");
	CHECK_STR(op_category("FusedBatchNormV3"), "normalization");
	CHECK_STR(op_category("ConcatV2"), "data formatting");
	CHECK_STR(op_category("GatherV2"), "gather");
	CHECK_STR(op_category("MaxPool"), "reduce-window");
	CHECK_STR(op_category("Max"), "reduce");
}

TEST(another_type_is_its_own_category)
{
	static const char *const types[] = { "ReadVariableOp",
					     "_Arg",
					     "_Retval",
					     "BatchFunction",
					     "While",
					     "If",
					     "PartitionedCall",
					     "Mat",
					     "MatMulX",
					     "MatMulV",
					     "V2",
					     "V",
					     "_",
					     "_Fused",
					     "matmul",
					     "\xff" };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		CHECK_STR(op_category(types[i]), types[i]);
	CHECK_STR(op_category(""), "unknown");
	CHECK_STR(op_category(NULL), "unknown");
}

/* Readers put such events in, or under, others, or leave them out. */
TEST(no_category_has_a_meaning_of_its_own_to_readers)
{
	static const char *const taken[] = { "IDLE",        "call",       "while",
					     "conditional", "fusion",     "loop fusion",
					     "infeed",      "outfeed",    "custom-call",
					     "async-start", "async-done", "copy-start",
					     "copy-done",   "all-reduce", "send",
					     "recv",        "program" };

	for (size_t i = 0; i < ARRAY_SIZE(categories); i++)
		for (size_t k = 0; k < ARRAY_SIZE(taken); k++)
			CHECK(strcmp(categories[i].name, taken[k]));
}

CHECK_MAIN()
