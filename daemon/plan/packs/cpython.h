/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of Python programs in sampled stacks. Each release of CPython is a pack, in a file
 * that states where its objects have what is read of them: facts of its headers
 * (Include/internal/pycore_runtime.h, pycore_interp.h, pycore_frame.h, and
 * Include/cpython/pystate.h, code.h, unicodeobject.h), for the default configuration. With another
 * configuration the checks of what is read fail, and the functions are not shown.
 *
 * From 3.11 on a file states its release in Py_Version, as PY_VERSION_HEX.
 */
#pragma once

#include <stddef.h>

#include "daemon/plan/model.h"

/* Of pack_cpythonNAME, in whose file the layout is. release: as in "3.11"; hex: 0x30b, 0: before
 * 3.11; since: as OBJECT_SINCE, or NULL. */
#define CPYTHON_PACK(name_, release, hex, since)                                                   \
	static const struct probe_row rows[] = {                                                   \
		{ .symbol = "_PyEval_EvalFrameDefault",                                            \
		  POINT(SCRIPT),                                                                   \
		  .objects = { [OBJECT_RUNTIME] = "_PyRuntime",                                    \
			       [OBJECT_CODE_TYPE] = "PyCode_Type",                                 \
			       [OBJECT_SINCE] = since },                                           \
		  .constant = "Py_Version",                                                        \
		  .constant_is = hex },                                                            \
	};                                                                                         \
	static const char *const files[] = { "libpython" release ".so*", NULL };                   \
	static const char *const executables[] = { "python" release, NULL };                       \
	const struct pack pack_cpython##name_ = {                                                  \
		.name = "CPython " release,                                                        \
		.files = files,                                                                    \
		.executables = executables,                                                        \
		.everywhere = true,                                                                \
		.mapped_first = true,                                                              \
		.rows = rows,                                                                      \
		.n_rows = sizeof(rows) / sizeof(rows[0]),                                          \
		.script = &layout,                                                                 \
	}
