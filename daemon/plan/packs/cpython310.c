/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/packs/cpython.h"

static const struct script_layout layout = {
	.runtime_current = 568,    /* _PyRuntimeState.gilstate.tstate_current */
	.runtime_interpreter = 40, /* _PyRuntimeState.interpreters.main */
	.interpreter_threads = 8,  /* PyInterpreterState.tstate_head */
	.thread_next = 8,
	.thread_id = 176,
	.thread_calls = 24, /* PyThreadState.frame */
	.calls_frame = SCRIPT_DIRECT,
	.frame_code = 32, /* PyFrameObject.f_code */
	.frame_previous = 24,
	.entries = SCRIPT_ENTRIES_ALL,
	.object_type = 8, /* PyObject.ob_type */
	.code_line = 40,  /* PyCodeObject.co_firstlineno */
	.code_file = 104,
	.code_name = 112, /* co_name: there is no other one */
	.text_size = 16,  /* PyASCIIObject.length, and the bytes behind that object */
	.text_bytes = 48,
	.text_state = 32,
	.text_is_ascii = 1 << 5 | 1 << 6, /* compact, ascii */
};

CPYTHON_PACK(310, "3.10", 0, "PyIter_Send");
