/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch. Facts taken from Debian's libtorch 1.13.1 (x86-64), whose libraries export these
 * functions and have no other symbols, and from the wheels of 2.7.1, 2.11.0 and 2.15.0.
 *
 * Entries only: exceptions cross these frames. An operation ends where its thread enters another
 * one at the same height of the stack or above, or wraps its result for Python. Where one has
 * returned and the next one's caller lies deeper in the stack, it is shown inside the first.
 *
 * In eager mode a run is a block without gradients: torch.no_grad() and torch.inference_mode() in
 * Python, NoGradGuard and InferenceMode in C++, which leave it when an exception does. A program of
 * TorchScript is a run of its own. Its interpreter calls operations past these functions: what is
 * seen of them are only the operations that they call themselves.
 */
#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "daemon/plan/model.h"

/* at::_ops::OPERATION_OVERLOAD::call(), which dispatches an operation and notifies its profiler. */
#define OPERATIONS "_ZN2at4_ops"

/* Python's function for an operation calls both. More than its own frame and those between. Less
 * than an interpreter's frames: an operation that is written in Python goes on. */
#define WRAP_SLACK 1024

enum { GROUP_BLOCK = 1, GROUP_SCRIPT };

/* The interpreter is entered and destroyed by one function. Copies of it, of programs that fork or
 * wait, are destroyed deeper in the stack. */
#define SCRIPT_SLACK 64
/* Where it is released, that function's frame can be in between. */
#define RELEASE_FRAME 64

/* Bit 0 of what it gets is whether gradients are computed; a new thread computes them. */
#define BLOCK                                                                                      \
	SWITCH(RUN), .slack = SLACK_ANY, .group = GROUP_BLOCK, .min_level = 1, .event = "no_grad"

/* c10::AutogradState::set_tls_state(AutogradState), a class of four or five bits. From 2.10 on they
 * are behind another field, and the class is passed by address. */
#define STATE_BITS 24
#define STATE                                                                                      \
	.symbol = "_ZN3c1013AutogradState13set_tls_stateES0_", BLOCK, .class_byte = STATE_BITS,    \
	.lost = "blocks in inference mode"

#define SCRIPT_END                                                                                 \
	CLOSE(RUN), .slack = SCRIPT_SLACK + RELEASE_FRAME, .action = ACTION_ENTRY,                 \
		    .group = GROUP_SCRIPT, .min_level = 1, .lost = "ends of runs of TorchScript"

static const struct probe_row rows[] = {
	/* c10::GradMode::set_enabled(bool) */
	{ .symbol = "_ZN3c108GradMode11set_enabledEb",
	  BLOCK,
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_1 },
	  .lost = "blocks without gradients" },
	{ STATE, .by_value = true, .action = ACTION_ENTRY, .value = { ARGUMENT_1 } },
	{ STATE, .action = ACTION_READ, .value = { ARGUMENT_1, 1, STATE_BITS } },
	/* torch::jit::InterpreterState::run(Stack &), and its destructor. */
	{ .symbol = "_ZN5torch3jit16InterpreterState3runE*",
	  OPEN(RUN),
	  .slack = SCRIPT_SLACK,
	  .action = ACTION_ENTRY,
	  .group = GROUP_SCRIPT,
	  .min_level = 1,
	  .event = "TorchScript",
	  .lost = "runs of TorchScript" },
	{ .symbol = "_ZN5torch3jit16InterpreterStateD1Ev", SCRIPT_END },
	/* In wheels that is inlined, except for the end of what it has: a function that releases
	 * any object ends in a jump to the destructor of InterpreterStateImpl that also frees it.
	 */
	{ .symbol = "_ZN5torch3jit20InterpreterStateImplD0Ev", SCRIPT_END },
	{ .symbol = OPERATIONS "*4callE*",
	  OPEN(OP),
	  .action = ACTION_ENTRY,
	  .min_level = 2,
	  .lost = "ops" },
	/* THPVariable_Wrap(at::TensorBase), for each tensor that Python gets from an operation; in
	 * later releases by reference. */
	{ .symbol = "_Z16THPVariable_Wrap*N2at10TensorBaseE",
	  POINT(OP),
	  .slack = WRAP_SLACK,
	  .action = ACTION_ENTRY,
	  .min_level = 2 },
};

static bool is_name(const char *s, uint32_t size)
{
	for (uint32_t i = 0; i < size; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '_')
			return false;
	return size > 0;
}

/* The class's name, which is the operation's and its overload's: its size and its characters. */
static const char *name_in_symbol(const char *symbol, uint32_t *ret_size)
{
	const char *at = symbol + strlen(OPERATIONS);
	uint32_t size = 0;

	while (isdigit((unsigned char)*at) && size < 1000)
		size = size * 10 + (uint32_t)(*at++ - '0');
	if (size == 0 || strnlen(at, size) < size)
		return NULL;
	*ret_size = size;
	return at;
}

static const char *const files[] = { "libtorch_cpu.so*", "libtorch_python.so*", "libc10.so*",
				     NULL };

/* libtorch_cpu.so, libtorch_python.so, libc10.so: of Debian's packages, and of wheels. */
static const struct known_build builds[] = {
	{ "feaefbc559e74298c67a4aca95dd5e2c49a4c739", "1.13.1" },
	{ "1d28f3f84a76a766e2f2b2a4eb7fd3fc870041f3", "1.13.1" },
	{ "d7a83fb67d8787eee6a24d42bd5b9d0dfa9540fa", "1.13.1" },
	{ "4ddb6266a795ff37436ad7308ea05aae00c4d233", "2.7.1" },
	{ "21b3ce859b5bbacdb16c4743863b9b16a50f461a", "2.7.1" },
	{ "6b01136e9b4d7f8b617a01a7d5edbd5cdff7afaf", "2.7.1" },
	{ "274ade0e6dcd7e46eea36c8a266340f254d817a4", "2.11.0" },
	{ "f16652f69a25b8d62dc868771b6d57a424a10e80", "2.11.0" },
	{ "fb74ba78ffd3db73c8d58277ab2b83e3747b4145", "2.11.0" },
	{ "52c133b04b74777fc9c13ee0e808688c8a62214e", "2.15.0" },
	{ "f1efbd6d3a38c8c63a8a0f304ea31e3b7e4b8cde", "2.15.0" },
	{ "8a77af199fee41d006ecf9057c403ca29219bb60", "2.15.0" },
	{},
};

const struct pack pack_pytorch = {
	.name = "PyTorch",
	.files = files,
	.builds = builds,
	.ops_end_at_next = true,
	.ops_outside_runs = true,
	.ops_remark =
		"Which operation of PyTorch another one is inside of is inferred from the height of the stack: some are shown inside the one before them, whose own time is too short by that. Operations that TorchScript's interpreter calls have no event.",
	.rows = rows,
	.n_rows = sizeof(rows) / sizeof(rows[0]),
	.names = { .form = NAME_INLINE, .is_name = is_name, .in_symbol = name_in_symbol },
};
