/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/rate_limit.h"

#include <stddef.h>

static struct rate_entry *find(struct rate_limit *limit, uint32_t kind, uint32_t user)
{
	struct rate_entry *free = NULL, *others = &limit->entries[RATE_LIMIT_ENTRIES];

	for (struct rate_entry *e = limit->entries; e < others; e++) {
		if (e->since_ns && e->kind == kind && e->user == user)
			return e;
		if (!e->since_ns && !free)
			free = e;
	}
	if (!free)
		free = others;
	if (!free->since_ns)
		*free = (struct rate_entry){ .kind = kind,
					     .user = free == others ? RATE_LIMIT_OTHERS : user };
	return free;
}

bool rate_limit_admit(struct rate_limit *limit, uint32_t kind, uint32_t user, uint64_t now_ns)
{
	struct rate_entry *e = find(limit, kind, user);

	/* 0 means free. */
	if (!e->since_ns)
		e->since_ns = now_ns ? now_ns : 1;
	if (e->written < RATE_LIMIT_BURST) {
		e->written++;
		return true;
	}
	e->omitted += e->omitted < UINT32_MAX;
	return false;
}

void rate_limit_end(struct rate_limit *limit, uint64_t now_ns, bool all,
		    void (*omitted)(uint32_t kind, uint32_t user, uint32_t n, void *data),
		    void *data)
{
	for (size_t i = 0; i <= RATE_LIMIT_ENTRIES; i++) {
		struct rate_entry *e = &limit->entries[i], ended = *e;

		if (!e->since_ns || (!all && now_ns - e->since_ns < RATE_LIMIT_INTERVAL_NS))
			continue;
		*e = (struct rate_entry){};
		if (ended.omitted)
			omitted(ended.kind, ended.user, ended.omitted, data);
	}
}
