/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JAX on CPUs, which is XLA behind PjRt. Facts taken from the wheel jaxlib 0.10.2 for x86-64, whose
 * library has symbols and no build-id: calls and arguments by disassembly.
 *
 * CpuPjRtRawLoadedExecutable::Execute() makes a function that runs a program, on a thread of the
 * client's pool, or on the caller's. That function makes an ExecuteSession, executes the program's
 * thunks, waits for those on other threads, and restores the rounding mode when it is left:
 *   ScopedSetRound, RunId::ToInt(), ExecuteSession, ThunkExecutor::Execute(), ~ScopedSetRound
 * The caller has given the run its number before: ExecutableRunOptions::set_run_id(number).
 *
 * Entries only: exceptions may cross these frames. A thunk is an operation; it ends where its
 * thread executes the next one, or the run ends.
 */
#include <ctype.h>
#include <stddef.h>

#include "daemon/plan/model.h"

enum { GROUP_RUN = 1 };

/* Both are called by that function. */
#define RUN_SLACK 64

/* Thunk: its table of functions, its kind, and its Info, which begins with the name of the
 * instruction, a std::string. */
#define THUNK_NAME 16

#define THUNKS "_ZN3xla3cpu"

static const struct probe_row rows[] = {
	/* Thunk::ExecuteSession::ExecuteSession(long, long) */
	{ .symbol = THUNKS "5Thunk14ExecuteSessionC1Ell",
	  OPEN(RUN),
	  .slack = RUN_SLACK,
	  .action = ACTION_ENTRY,
	  .group = GROUP_RUN,
	  .min_level = 1,
	  .event = "ThunkExecutor::Execute",
	  .lost = "runs" },
	{ .symbol = "_ZN3xla20ExecutableRunOptions10set_run_idENS_5RunIdE",
	  ENQUEUE(RUN),
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_2 },
	  .min_level = 1,
	  .lost = "requests of runs on the client's pool (numbers, by the caller)" },
	{ .symbol = "_ZNK3xla5RunId5ToIntEv",
	  DEQUEUE(RUN),
	  .action = ACTION_READ,
	  .value = { ARGUMENT_1, 1, 0 },
	  .min_level = 1,
	  .lost = "requests of runs on the client's pool (numbers, on the pool)" },
	/* tsl::port::ScopedSetRound::~ScopedSetRound(). Threads of a pool end with one, too. */
	{ .symbol = "_ZN3tsl4port14ScopedSetRoundD1Ev",
	  CLOSE(RUN),
	  .slack = RUN_SLACK,
	  .action = ACTION_ENTRY,
	  .group = GROUP_RUN,
	  .min_level = 1,
	  .lost = "ends of runs" },
	/* ThunkExecutor::TracedExecute(result, Thunk &, const Thunk::ExecuteParams &) */
	{ .symbol = THUNKS "13ThunkExecutor13TracedExecuteERNS0_5ThunkE*",
	  OPEN(OP),
	  .action = ACTION_OBJECT,
	  .value = { ARGUMENT_2 },
	  .tag = { ARGUMENT_3 },
	  .min_level = 2,
	  .lost = "ops" },
	/* Programs are unloaded, and others have their thunks where those were. */
	{ .symbol = THUNKS "*ThunkD0Ev",
	  FREE(OP),
	  .action = ACTION_OBJECT_FREE,
	  .value = { ARGUMENT_1 },
	  .min_level = 2,
	  .lost = "the unloading of programs: a new op at an old one's address may get its name" },
	{ .symbol = THUNKS "16SmallKernelThunkI*D0Ev",
	  FREE(OP),
	  .action = ACTION_OBJECT_FREE,
	  .value = { ARGUMENT_1 },
	  .min_level = 2 },
};

/* Of an instruction in HLO. */
static bool is_name(const char *s, uint32_t size)
{
	for (uint32_t i = 0; i < size; i++)
		if (!isgraph((unsigned char)s[i]))
			return false;
	return size > 0;
}

/* Until 0.6 the second one. */
static const char *const files[] = { "libjax_common.so", "xla_extension.so", NULL };

const struct pack pack_jax = {
	.name = "JAX",
	.files = files,
	.ops_end_at_next = true,
	.rows = rows,
	.n_rows = sizeof(rows) / sizeof(rows[0]),
	.names = { .form = NAME_STRING, .name_offset = THUNK_NAME, .is_name = is_name },
};
