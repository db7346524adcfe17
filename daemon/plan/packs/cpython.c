/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of Python programs in sampled stacks, for CPython 3.11: where its objects have what
 * is read of them, from its headers (Include/internal/pycore_runtime.h, pycore_interp.h,
 * pycore_frame.h, and Include/cpython/pystate.h, code.h, unicodeobject.h). Debian's python3.11, of
 * the default configuration; another one is recognized by what is there instead, and not read.
 */
#include <stddef.h>

#include "daemon/plan/model.h"

static const struct script_layout layout = {
	.runtime_current = 576,    /* _PyRuntimeState.gilstate.tstate_current */
	.runtime_interpreter = 48, /* _PyRuntimeState.interpreters.main */
	.interpreter_threads = 16, /* PyInterpreterState.threads.head */
	.thread_next = 8,
	.thread_id = 152,
	.thread_calls = 56, /* PyThreadState.cframe */
	.calls_frame = 8,   /* _PyCFrame.current_frame */
	.frame_code = 32,   /* _PyInterpreterFrame.f_code */
	.frame_previous = 48,
	.frame_is_entry = 68,
	.object_type = 8, /* PyObject.ob_type */
	.code_line = 72,  /* PyCodeObject.co_firstlineno */
	.code_file = 112,
	.code_name = 128, /* co_qualname */
	.text_size = 16,  /* PyASCIIObject.length, and the bytes behind that object */
	.text_bytes = 48,
	.text_state = 32,
	.text_is_ascii = 1 << 5 | 1 << 6, /* compact, ascii */
};

static const struct probe_row rows[] = {
	{ .symbol = "_PyEval_EvalFrameDefault",
	  POINT(SCRIPT),
	  .objects = { [OBJECT_RUNTIME] = "_PyRuntime", [OBJECT_CODE_TYPE] = "PyCode_Type" } },
};

static const char *const files[] = { "libpython3.11.so*", NULL };
static const char *const executables[] = { "python3.11", NULL };

const struct pack pack_cpython = {
	.name = "CPython 3.11",
	.files = files,
	.executables = executables,
	.everywhere = true,
	.mapped_first = true,
	.rows = rows,
	.n_rows = sizeof(rows) / sizeof(rows[0]),
	.script = &layout,
};
