/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of operations, as the runtime and as compilers of tensor programs name them. */
#pragma once

#include <stddef.h>

#include "daemon/timeline/timeline.h"

/* "Type" of "scope/op:Type", within the name; NULL where there is none. A name that was lost is a
 * sentence. */
const char *op_type(const struct span_name *n);

/*
 * The category of an operation's type ("MatMul" is a "dot"), or the type itself when it is in none;
 * "unknown" for a type of NULL. Kernels that only differ in how they are made ("_FusedMatMul",
 * "BatchMatMulV2", "_MklNativeMatMul") are in the same.
 */
const char *op_category(const char *type);
