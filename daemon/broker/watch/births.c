/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/watch/births.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "daemon/plan/detail.h"
#include "daemon/plan/packs.h"
#include "lib/base/macro.h"

#define SETS 256
#define WAYS 4

struct entry {
	pid_t pid; /* 0: free */
	struct birth birth;
};

/* Pids are assigned in sequence: a set holds those with one remainder. */
struct births {
	struct entry sets[SETS][WAYS];
};

int births_new(struct births **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct births *births_free(struct births *b)
{
	free(b);
	return NULL;
}

static struct entry *find(const struct births *b, pid_t pid)
{
	for (unsigned i = 0; i < WAYS; i++)
		if (b->sets[pid % SETS][i].pid == pid)
			return (struct entry *)&b->sets[pid % SETS][i];
	return NULL;
}

/* A free slot, or else that of the oldest process that has mapped nothing, or else of the
 * oldest. */
static struct entry *make(struct births *b, pid_t pid)
{
	struct entry *set = b->sets[pid % SETS], *found = &set[0];

	for (unsigned i = 1; i < WAYS; i++) {
		bool is_older = set[i].birth.executed_ns < found->birth.executed_ns;
		bool maps = set[i].birth.first_mapped_ns, found_maps = found->birth.first_mapped_ns;

		if (!found->pid)
			break;
		if (!set[i].pid || (maps == found_maps ? is_older : found_maps))
			found = &set[i];
	}
	*found = (struct entry){ .pid = pid };
	return found;
}

static bool is_runtime(const char *path)
{
	const char *base = strrchr(path, '/');

	return base && (packs_of_runtimes(packs_of_file(base + 1)));
}

void births_event(struct births *b, const struct sideband_event *event)
{
	struct entry *e;

	switch (event->kind) {
	case SIDEBAND_FORKED:
		e = find(b, event->pid);
		/* Events of one CPU may be read after later events of another one. */
		if (e && MAX(e->birth.executed_ns, e->birth.first_mapped_ns) >= event->time)
			break;
		/* fall through */
	case SIDEBAND_EXECUTED:
		e = find(b, event->pid) ?: make(b, event->pid);
		e->birth = (struct birth){ .executed_ns = event->time };
		break;
	case SIDEBAND_MAPPED:
		if (!is_runtime(event->name))
			break;
		e = find(b, event->pid) ?: make(b, event->pid);
		if (!e->birth.first_mapped_ns)
			e->birth.first_mapped_ns = event->time;
		break;
	case SIDEBAND_EXITED:
		e = find(b, event->pid);
		if (e)
			*e = (struct entry){};
		break;
	}
}

struct birth births_get(const struct births *b, pid_t pid)
{
	const struct entry *e = pid > 0 ? find(b, pid) : NULL;

	return e ? e->birth : (struct birth){};
}
