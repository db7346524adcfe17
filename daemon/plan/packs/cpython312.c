/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/packs/cpython.h"

static const struct script_layout layout = {
	.runtime_interpreter = 48, /* _PyRuntimeState.interpreters.main */
	.interpreter_threads = 72, /* PyInterpreterState.threads.head */
	.thread_next = 8,
	.thread_id = 136,
	.thread_calls = 56, /* PyThreadState.cframe */
	.calls_frame = 0,   /* _PyCFrame.current_frame */
	.frame_code = 0,    /* _PyInterpreterFrame.f_code */
	.frame_previous = 8,
	.frame_kind = 70, /* owner; FRAME_OWNED_BY_CSTACK is 3 */
	.entries = SCRIPT_ENTRIES_INSIDE,
	.object_type = 8, /* PyObject.ob_type */
	.code_line = 68,  /* PyCodeObject.co_firstlineno */
	.code_file = 112,
	.code_name = 128, /* co_qualname */
	.text_size = 16,  /* PyASCIIObject.length, and the bytes behind that object */
	.text_bytes = 40,
	.text_state = 32,
	.text_is_ascii = 1 << 5 | 1 << 6, /* compact, ascii */
};

CPYTHON_PACK(312, "3.12", 0x30c, NULL);
