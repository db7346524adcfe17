/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/watch/watch.h"

#include <errno.h>
#include <string.h>

#include "daemon/plan/detail.h"
#include "daemon/plan/packs.h"
#include "lib/base/macro.h"

/* A reported process is remembered for this long: by then the front has opened its files, or has
 * found that it is not a target. */
#define REPORTED_NS 5000000000ull
#define RESCAN_NS 1000000000ull

struct known {
	pid_t pid;
	uint64_t until;
};

struct watch {
	bool (*has_threads)(pid_t pid);
	struct known known[WATCH_KNOWN_MAX];
	unsigned n_known;
	pid_t pending[WATCH_PENDING_MAX];
	unsigned n_pending;
	bool rescan;
	uint64_t next_rescan;
};

int watch_new(bool (*has_threads)(pid_t pid), struct watch **ret)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->has_threads = has_threads;
	*ret = w;
	return 0;
}

struct watch *watch_free(struct watch *w)
{
	free(w);
	return NULL;
}

static struct known *find(const struct watch *w, pid_t pid)
{
	for (unsigned i = 0; i < w->n_known; i++)
		if (w->known[i].pid == pid)
			return (struct known *)&w->known[i];
	return NULL;
}

bool watch_knows(const struct watch *w, pid_t pid, uint64_t now)
{
	const struct known *k = find(w, pid);

	return k && k->until > now;
}

static void remember(struct watch *w, pid_t pid, uint64_t now, uint64_t until)
{
	struct known *k = find(w, pid), *first = &w->known[0];

	if (k) {
		k->until = MAX(k->until, until);
		return;
	}
	if (w->n_known < WATCH_KNOWN_MAX) {
		k = &w->known[w->n_known++];
	} else {
		for (unsigned i = 1; i < w->n_known; i++)
			if (w->known[i].until < first->until)
				first = &w->known[i];
		/* A known target does not make room for a possible one. */
		if (first->until > now && until != UINT64_MAX)
			return;
		k = first;
	}
	*k = (struct known){ .pid = pid, .until = until };
}

static void report(struct watch *w, pid_t pid, uint64_t now)
{
	remember(w, pid, now, now + REPORTED_NS);
	for (unsigned i = 0; i < w->n_pending; i++)
		if (w->pending[i] == pid)
			return;
	if (w->n_pending < WATCH_PENDING_MAX)
		w->pending[w->n_pending++] = pid;
	else
		watch_lost(w);
}

static void take_pending(struct watch *w, unsigned i)
{
	w->n_pending--;
	memmove(&w->pending[i], &w->pending[i + 1], (w->n_pending - i) * sizeof(w->pending[0]));
}

static void on_exited(struct watch *w, pid_t pid)
{
	struct known *k = find(w, pid);

	if (!k || w->has_threads(pid))
		return;
	*k = w->known[--w->n_known];
	for (unsigned i = 0; i < w->n_pending; i++)
		if (w->pending[i] == pid) {
			take_pending(w, i);
			return;
		}
}

/* Until it is examined nothing is known about its new program. */
static void on_executed(struct watch *w, pid_t pid, uint64_t now)
{
	struct known *k = find(w, pid);

	if (!k || k->until <= now)
		return;
	k->until = now;
	report(w, pid, now);
}

static bool may_be_runtime(const char *name, uint64_t size)
{
	const char *base = strrchr(name, '/');

	base = base ? base + 1 : name;
	return size >= PACK_BIG_CODE || packs_are_news(base);
}

void watch_event(struct watch *w, const struct sideband_event *e, uint64_t now)
{
	const struct known *k;

	switch (e->kind) {
	case SIDEBAND_MAPPED:
		if (may_be_runtime(e->name, e->size))
			report(w, e->pid, now);
		break;
	case SIDEBAND_FORKED:
		k = find(w, e->parent);
		if (k && k->until > now)
			report(w, e->pid, now);
		break;
	case SIDEBAND_EXECUTED:
		on_executed(w, e->pid, now);
		break;
	case SIDEBAND_EXITED:
		on_exited(w, e->pid);
		break;
	}
}

void watch_add(struct watch *w, pid_t pid, uint64_t now)
{
	remember(w, pid, now, UINT64_MAX);
}

void watch_lost(struct watch *w)
{
	w->rescan = true;
	/* They are examined with all the others. */
	w->n_pending = 0;
}

pid_t watch_next(const struct watch *w)
{
	return w->n_pending ? w->pending[0] : 0;
}

void watch_reported(struct watch *w)
{
	take_pending(w, 0);
}

bool watch_wants_rescan(const struct watch *w, uint64_t now)
{
	return w->rescan && now >= w->next_rescan;
}

void watch_rescanned(struct watch *w, uint64_t now)
{
	w->rescan = false;
	w->next_rescan = now + RESCAN_NS;
}
