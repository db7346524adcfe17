/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/model.h"

#include <fnmatch.h>
#include <stddef.h>

/* A pack registers itself by its symbol: one line here is all that a new runtime needs besides its
 * file. */
#define PACKS(X) X(tensorflow)

#define DECLARE(name) extern const struct probe_pack pack_##name;
#define LIST(name) &pack_##name,
PACKS(DECLARE)
const struct probe_pack *const packs[] = { PACKS(LIST) NULL };

bool pack_glob(const char *pattern, const char *string)
{
	return fnmatch(pattern, string, 0) == 0;
}

static bool matches_any(const char *const *patterns, const char *string)
{
	for (; patterns && *patterns; patterns++)
		if (pack_glob(*patterns, string))
			return true;
	return false;
}

const struct probe_pack *pack_find(const char *base_name, bool executable)
{
	for (const struct probe_pack *const *p = packs; *p; p++)
		if (matches_any(executable ? (*p)->executables : (*p)->files, base_name))
			return *p;
	return NULL;
}

bool pack_is_beside(const char *base_name)
{
	for (const struct probe_pack *const *p = packs; *p; p++)
		if (matches_any((*p)->beside, base_name))
			return true;
	return false;
}

enum probe_kind probe_kind_of_role(enum role role)
{
	switch (role) {
	case ROLE_RUN_BEGIN:
	case ROLE_RUN_END:
	/* Whose run a run is: without these the runs themselves say little. */
	case ROLE_BATCH_ADD:
	case ROLE_BATCH_BEGIN:
	case ROLE_BATCH_SIZE:
	case ROLE_BATCH_PADDED:
	case ROLE_BATCH_END:
	case ROLE_REQUEST_BEGIN:
	case ROLE_REQUEST_END:
	case ROLE_STREAM_BEGIN:
	case ROLE_STREAM_OPERATIONS:
		return KIND_RUNS;
	case ROLE_OP_BEGIN:
	case ROLE_OP_ASYNC_BEGIN:
	case ROLE_OP_END:
	case ROLE_OBJECT_FREE:
		return KIND_OPS;
	case ROLE_SCHEDULE:
		return KIND_HANDOVER;
	case ROLE_ALLOCATE:
	case ROLE_ALLOCATED:
	case ROLE_FREE:
	case ROLE_CHUNK:
		return KIND_MEMORY;
	case ROLE_LABEL_BEGIN:
	case ROLE_LABEL_END:
		return KIND_LABELS;
	case ROLE_NEXT_BEGIN:
	case ROLE_NEXT_END:
		return KIND_ITERATORS;
	case ROLE_RUNTIME_BEGIN:
	case ROLE_LOAD_BEGIN:
	case ROLE_LOAD_PATH:
	case ROLE_LOAD_END:
	case ROLE_RESTORE_BEGIN:
	case ROLE_RESTORE_END:
		return KIND_STARTUP;
	default:
		return KIND_EXECUTORS;
	}
}

bool role_is_of_streams(enum role role)
{
	return role == ROLE_STREAM_BEGIN || role == ROLE_STREAM_OPERATIONS;
}

bool probe_kind_is_optional(enum probe_kind kind)
{
	return kind == KIND_MEMORY || kind == KIND_HANDOVER || kind == KIND_LABELS ||
	       kind == KIND_ITERATORS;
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
		[KIND_STARTUP] = "loads",
	};

	return kind < KIND_COUNT ? names[kind] : "?";
}

unsigned detail_program_kinds(const struct detail *detail)
{
	/* Runs alone do not need to know when threads ran. */
	return (detail->level >= 2 ? 1u << KIND_SWITCHES : 0) |
	       (detail->no_sockets ? 0 : 1u << KIND_SOCKETS);
}

bool probe_is_wanted(const struct probe_spec *spec, const struct detail *detail)
{
	if (probe_kind_of_role(spec->role) == KIND_STARTUP)
		return detail->startup;
	if (probe_kind_of_role(spec->role) == KIND_MEMORY)
		return detail->memory == MEMORY_ON ||
		       (detail->memory == MEMORY_BY_LEVEL && detail->level >= 3);
	return spec->min_level <= detail->level &&
	       !(detail->ops_at_entry && spec->role == ROLE_OP_END) &&
	       !(detail->no_sockets && role_is_of_streams(spec->role));
}
