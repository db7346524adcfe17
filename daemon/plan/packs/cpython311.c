/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/packs/cpython.h"

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
	.frame_kind = 68, /* is_entry */
	.entries = SCRIPT_ENTRIES_MARKED,
	.object_type = 8, /* PyObject.ob_type */
	.code_line = 72,  /* PyCodeObject.co_firstlineno */
	.code_file = 112,
	.code_name = 128, /* co_qualname */
	.text_size = 16,  /* PyASCIIObject.length, and the bytes behind that object */
	.text_bytes = 48,
	.text_state = 32,
	.text_is_ascii = 1 << 5 | 1 << 6, /* compact, ascii */
};

CPYTHON_PACK(311, "3.11", 0x30b, NULL);
