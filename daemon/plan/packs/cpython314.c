/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/packs/cpython.h"

static const struct script_layout layout = {
	.runtime_interpreter = 816,  /* _PyRuntimeState.interpreters.main */
	.interpreter_threads = 7344, /* PyInterpreterState.threads.head */
	.thread_next = 8,
	.thread_id = 152,
	.thread_calls = 72, /* PyThreadState.current_frame */
	.calls_frame = SCRIPT_DIRECT,
	.frame_code = 0, /* _PyInterpreterFrame.f_executable, with marks in its low bits */
	.frame_previous = 8,
	.frame_kind = 74, /* owner; FRAME_OWNED_BY_INTERPRETER is 3 */
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

CPYTHON_PACK(314, "3.14", 0x30e, NULL);
