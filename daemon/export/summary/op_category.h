/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of operations, as the runtime and as compilers of tensor programs name them. */
#pragma once

#include <stddef.h>

#include "daemon/timeline/timeline.h"

/* "Type" of "scope/op:Type", within the name; NULL: there is none, as in the sentence for a lost
 * name. */
const char *op_type(const struct span_name *n);

/*
 * The category of an operation's type ("MatMul" is a "dot"), or the type itself if it has none;
 * "unknown" for a type of NULL. Kernels that differ only in their implementation ("_FusedMatMul",
 * "BatchMatMulV2", "_MklNativeMatMul") have the same category.
 */
const char *op_category(const char *type);
