/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/detail.h"

enum probe_kind probe_kind_of_row(const struct probe_row *row)
{
	/* Batches and streams link runs to requests, so they belong to KIND_RUNS: without them the
	 * runs themselves show little. */
	static const enum probe_kind kinds[WORK_COUNT] = {
		[WORK_REQUEST] = KIND_RUNS,     [WORK_RUN] = KIND_RUNS,
		[WORK_PIECE] = KIND_EXECUTORS,  [WORK_OP] = KIND_OPS,
		[WORK_BATCH] = KIND_RUNS,       [WORK_STREAM] = KIND_RUNS,
		[WORK_STAGE] = KIND_ITERATORS,  [WORK_LABEL] = KIND_LABELS,
		[WORK_ALLOC] = KIND_MEMORY,     [WORK_RUNTIME] = KIND_STARTUP,
		[WORK_LOAD] = KIND_STARTUP,     [WORK_WEIGHTS] = KIND_STARTUP,
		[WORK_PLAIN] = KIND_DECRYPTED,  [WORK_SCRIPT] = KIND_STACKS,
		[WORK_CONTEXT] = KIND_CONTEXTS, [WORK_CHILD] = KIND_RUNS,
	};

	/* While operations are not recorded, what they run on ends all the same, and another takes
	 * its address: it must not get its name. */
	if (row_is(row, VERB_FREE, WORK_OP))
		return KIND_RUNS;
	return row_is(row, VERB_ENQUEUE, WORK_OP) ? KIND_HANDOVER : kinds[row->work];
}

bool probe_kind_is_optional(enum probe_kind kind)
{
	return kind == KIND_MEMORY || kind == KIND_HANDOVER || kind == KIND_LABELS ||
	       kind == KIND_ITERATORS || kind == KIND_DECRYPTED || kind == KIND_CONTEXTS;
}

const char *probe_kind_name(enum probe_kind kind)
{
	static const char *const names[KIND_COUNT] = {
		[KIND_RUNS] = "runs",
		[KIND_EXECUTORS] = "executors",
		[KIND_OPS] = "ops",
		[KIND_HANDOVER] = "hand-over of ops",
		[KIND_SWITCHES] = "scheduler switches",
		[KIND_SOCKETS] = "requests at sockets",
		[KIND_MEMORY] = "allocations",
		[KIND_LABELS] = "the server's own spans",
		[KIND_ITERATORS] = "iterators",
		[KIND_STACKS] = "sampled stacks",
		[KIND_STARTUP] = "loads",
		[KIND_DECRYPTED] = "encrypted requests",
		[KIND_CONTEXTS] = "contexts of requests",
	};

	return kind < KIND_COUNT ? names[kind] : "?";
}

unsigned detail_program_kinds(const struct detail *detail)
{
	/* Runs alone do not need to know when threads ran. */
	return (detail->level >= 2 ? 1u << KIND_SWITCHES : 0) |
	       (detail->stacks_hz ? 1u << KIND_STACKS : 0) |
	       (detail->no_sockets ? 0 : 1u << KIND_SOCKETS) |
	       (detail->decrypted && !detail->no_sockets ? 1u << KIND_DECRYPTED : 0);
}

bool probe_is_wanted(const struct probe_row *row, const struct detail *detail)
{
	if (probe_kind_of_row(row) == KIND_STARTUP)
		return detail->startup;
	if (probe_kind_of_row(row) == KIND_MEMORY)
		return detail->memory == MEMORY_ON ||
		       (detail->memory == MEMORY_BY_LEVEL && detail->level >= 3);
	if (probe_kind_of_row(row) == KIND_DECRYPTED)
		return detail->decrypted && !detail->no_sockets;
	if (probe_kind_of_row(row) == KIND_STACKS)
		return detail->stacks_hz;
	return row->min_level <= detail->level &&
	       !(detail->ops_at_entry && row_is(row, VERB_CLOSE, WORK_OP)) &&
	       !(detail->no_sockets && (row->work == WORK_STREAM || row->work == WORK_CONTEXT));
}
