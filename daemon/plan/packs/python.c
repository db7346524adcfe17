/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython's contexts (PEP 567). A loop of asyncio runs each callback and each step of a task in a
 * context; a new task, callback or thread of a pool gets a copy of its maker's. So the context in
 * which a thread runs leads back to the callback that read the request. Facts of Debian's Python
 * 3.11.2 (x86-64), which has no symbols of static functions.
 *
 * All that is exported jumps to functions that the interpreter calls itself: context_enter() and
 * context_exit() (thread state, context), context_new_from_vars() and context_new_empty(), which
 * call the allocator first. Of the latter, builds of 3.14 that uv installs have a part only in
 * PyContext_New(); they are followed by what ends a context.
 */
#include <stddef.h>

#include "daemon/plan/model.h"

/* From an object to its type. */
#define OBJECT_TYPE 8
/* The word of a type with what ends its objects: PyTypeObject.tp_dealloc. */
#define TYPE_DEALLOC 6

static const struct probe_row rows[] = {
	{ .jump = "PyContext_Enter",
	  OPEN(CONTEXT),
	  .action = ACTION_READ,
	  .value = { ARGUMENT_2 },
	  .value2 = { ARGUMENT_2, 1, OBJECT_TYPE },
	  .min_level = 1 },
	{ .jump = "PyContext_Exit",
	  CLOSE(CONTEXT),
	  .action = ACTION_READ,
	  .value = { ARGUMENT_2 },
	  .value2 = { ARGUMENT_2, 1, OBJECT_TYPE },
	  .min_level = 1 },
	{ .jump = "PyContext_CopyCurrent",
	  .first_call = true,
	  ENQUEUE(CONTEXT),
	  .action = ACTION_READ,
	  .value = { ARGUMENT_1 },
	  .value2 = { ARGUMENT_1, 1, OBJECT_TYPE },
	  .min_level = 1 },
	{ .jump = "PyContext_New",
	  .first_call = true,
	  FREE(CONTEXT),
	  .action = ACTION_READ,
	  .value = { ARGUMENT_1 },
	  .value2 = { ARGUMENT_1, 1, OBJECT_TYPE },
	  .min_level = 1 },
	/* The end of each context. */
	{ .word_of = "PyContext_Type",
	  .entry = TYPE_DEALLOC,
	  .instead = true,
	  FREE(CONTEXT),
	  .action = ACTION_READ,
	  .value = { ARGUMENT_1 },
	  .value2 = { ARGUMENT_1, 1, OBJECT_TYPE },
	  .min_level = 1 },
};

static const char *const executables[] = { "python3.*", NULL };
static const char *const files[] = { "libpython3.*.so*", NULL };

const struct pack pack_python = {
	.name = "Python",
	.files = files,
	.executables = executables,
	.everywhere = true,
	.mapped_first = true,
	.rows = rows,
	.n_rows = sizeof(rows) / sizeof(rows[0]),
};
