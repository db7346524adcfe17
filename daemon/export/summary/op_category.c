/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/summary/op_category.h"

#include <string.h>

#include "lib/base/macro.h"

/* Prefixes that the runtime puts before the type that a kernel is a variant of, in this order. */
static const char *const prefixes[] = { "_", "Mkl", "Native", "Fused" };

struct category {
	const char *name;
	const char *const *types; /* without version; NULL-terminated */
};

#define TYPES(...) ((const char *const[]){ __VA_ARGS__, NULL })

/*
 * Readers have special meanings for "call", "while", "conditional", "fusion", "infeed", "outfeed"
 * and the like: no category has such a name, and operations that call functions or only launch
 * something keep their type.
 */
static const struct category categories[] = {
	{ "dot", TYPES("MatMul", "BatchMatMul", "SparseMatMul", "SparseTensorDenseMatMul",
		       "QuantizedMatMul", "Einsum", "BatchMatMulEinsum") },
	{ "convolution",
	  TYPES("Conv", "Conv2D", "Conv3D", "DepthwiseConv2dNative", "DepthwiseConv2D",
		"Conv2DBackpropInput", "Conv3DBackpropInput", "QuantizedConv2D") },
	{ "normalization",
	  TYPES("Softmax", "LogSoftmax", "BatchNorm", "LayerNorm", "L2Loss", "LRN") },
	{ "reduce", TYPES("Sum", "Mean", "Max", "Min", "Prod", "All", "Any", "ArgMax", "ArgMin",
			  "Cumsum", "Cumprod", "SegmentSum", "TopK") },
	{ "reduce-window", TYPES("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D") },
	{ "elementwise",
	  TYPES("Add", "AddN", "BiasAdd", "Sub", "Mul", "Div", "RealDiv", "DivNoNan", "FloorDiv",
		"FloorMod", "Mod", "MulNoNan", "Neg", "Abs", "Sign", "Square", "SquaredDifference",
		"Sqrt", "Rsqrt", "Pow", "Exp", "Expm1", "Log", "Log1p", "Sin", "Cos", "Tan", "Tanh",
		"Sigmoid", "Erf", "Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Softplus", "Gelu",
		"Swish", "Maximum", "Minimum", "Floor", "Ceil", "Round", "Rint", "Reciprocal",
		"Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd",
		"LogicalOr", "LogicalNot", "Select", "ClipByValue", "IsNan", "IsInf", "IsFinite",
		"Cast") },
	{ "data formatting",
	  TYPES("Reshape", "Transpose", "Concat", "Pack", "Unpack", "Split", "Slice",
		"StridedSlice", "Tile", "Pad", "MirrorPad", "ExpandDims", "Squeeze", "Fill",
		"Range", "Reverse", "BroadcastTo", "OnesLike", "ZerosLike", "OneHot",
		"SpaceToDepth", "DepthToSpace", "SpaceToBatch", "SpaceToBatchND", "BatchToSpace",
		"BatchToSpaceND", "Identity", "IdentityN", "Shape", "Size", "Rank",
		"EnsureShape") },
	{ "gather", TYPES("Gather", "GatherNd", "ResourceGather", "ResourceGatherNd", "Where",
			  "BooleanMask") },
	{ "scatter", TYPES("ScatterNd", "TensorScatterUpdate", "ScatterUpdate", "DynamicStitch") },
};

/* The part of "BatchMatMulV2" before the version. */
static size_t length_without_version(const char *type)
{
	size_t length = strlen(type), digits = length;

	while (digits && type[digits - 1] >= '0' && type[digits - 1] <= '9')
		digits--;
	return digits > 1 && digits < length && type[digits - 1] == 'V' ? digits - 1 : length;
}

const char *op_category(const char *type)
{
	const char *base = type;
	size_t length;

	if (!type || !*type)
		return "unknown";
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (!strncmp(base, prefixes[i], strlen(prefixes[i])))
			base += strlen(prefixes[i]);
	length = length_without_version(base);
	for (size_t i = 0; i < ARRAY_SIZE(categories); i++)
		for (const char *const *t = categories[i].types; *t; t++)
			if (!strncmp(*t, base, length) && !(*t)[length])
				return categories[i].name;
	return type;
}

const char *op_type(const struct span_name *n)
{
	const char *colon = n->lost ? NULL : strrchr(n->name, ':');

	return colon ? colon + 1 : NULL;
}
