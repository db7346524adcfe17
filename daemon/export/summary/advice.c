/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/summary/advice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/record_types.h"
#include "lib/base/macro.h"
#include "lib/base/quota.h"

#define REQUESTS_MIN 20
/* Share of the requests' time, percent: a smaller one is not mentioned. */
#define SHARE_MIN 25
/* Of a longer path of a cgroup, the end is shown. */
#define CGROUP_SHOWN 100

enum wait {
	WAIT_CPU,
	WAIT_QUOTA,
	WAIT_ACCEPT,
	WAIT_FIRST_READ, /* for accept, and to be read: when it was accepted is unknown */
	WAIT_QUEUE,
	WAIT_BATCH,
	WAIT_BLOCKED,
	WAIT_READ,
	WAIT_WRITE,
	WAIT_SENT,
	WAIT_COUNT
};

struct shares {
	const struct timeline *timeline;
	uint64_t n_requests, total_ns;
	uint64_t waits_ns[WAIT_COUNT];
	uint32_t blocked_in; /* the name of what it is blocked in for the longest time; TEXT_NONE */
	uint64_t blocked_in_ns;
	uint64_t quotas_ns[TIMELINE_QUOTAS_MAX]; /* throttled, by quota */
	uint64_t held_ns[HELD_REASONS];          /* in the socket, by reason */
};

static enum wait wait_of(const struct request *q, const struct segment *s)
{
	if (s->activity == ACTIVITY_RUNNABLE)
		return WAIT_CPU;
	if (s->activity == ACTIVITY_THROTTLED)
		return WAIT_QUOTA;
	if (s->phase == PHASE_BATCH)
		return WAIT_BATCH;
	if (s->phase == PHASE_SEND_HELD)
		return WAIT_SENT;
	if (s->phase == PHASE_ACCEPT_QUEUE)
		return WAIT_ACCEPT;
	/* What the thread that will take it up does until then. */
	if (s->phase == PHASE_QUEUE)
		return q->flags & REQUEST_UNACCEPTED && !q->accepted_ns &&
				       s->end_ns <= q->read_start_ns
			       ? WAIT_FIRST_READ
			       : WAIT_QUEUE;
	if (s->activity != ACTIVITY_BLOCKED)
		return WAIT_COUNT;
	if (s->phase == PHASE_READ)
		return WAIT_READ;
	return s->phase == PHASE_WRITE ? WAIT_WRITE : WAIT_BLOCKED;
}

/* The call that blocks for the longest time: there are few names, so the search is linear. */
static void find_blocked(struct shares *shares, const uint64_t *blocked_ns)
{
	shares->blocked_in = TEXT_NONE;
	for (uint32_t i = 0; i < shares->timeline->n_names; i++)
		if (blocked_ns[i] > shares->blocked_in_ns) {
			shares->blocked_in = i;
			shares->blocked_in_ns = blocked_ns[i];
		}
}

/* The quota that was waited for the longest; NULL: unknown. */
static const struct quota *find_quota(const struct shares *shares)
{
	const struct timeline *t = shares->timeline;
	uint32_t most = 0;

	for (uint32_t i = 1; i < t->n_quotas; i++)
		if (shares->quotas_ns[i] > shares->quotas_ns[most])
			most = i;
	return shares->quotas_ns[most] ? &t->quotas[most] : NULL;
}

static void sum_up(struct shares *shares, uint64_t *blocked_ns)
{
	const struct timeline *t = shares->timeline;

	for (uint32_t i = 0; i < t->n_requests; i++) {
		const struct request *q = &t->requests[i];

		if (q->flags & REQUEST_NOT_WHOLE)
			continue;
		shares->n_requests++;
		shares->total_ns += q->end_ns - q->start_ns;
		for (uint64_t k = q->first_segment; k < q->first_segment + q->n_segments; k++) {
			const struct segment *s = &t->segments[k];
			enum wait wait = wait_of(q, s);
			const struct quota *quota;

			if (wait == WAIT_COUNT)
				continue;
			shares->waits_ns[wait] += s->end_ns - s->start_ns;
			if (wait == WAIT_SENT)
				shares->held_ns[q->held_reason] += s->end_ns - s->start_ns;
			if (wait == WAIT_BLOCKED && s->name < t->n_names)
				blocked_ns[s->name] += s->end_ns - s->start_ns;
			quota = wait == WAIT_QUOTA ? timeline_quota(t, s->name) : NULL;
			if (quota)
				shares->quotas_ns[quota - t->quotas] += s->end_ns - s->start_ns;
		}
	}
}

/* How many threads were running or runnable on average, and on how many CPUs. */
static double wanted_cpus(const struct timeline *t, unsigned *ret_cpus)
{
	uint64_t wanted_ns = 0;
	int last = -1;

	*ret_cpus = 0;
	for (uint64_t i = 0; i < t->n_slices; i++) {
		wanted_ns += t->slices[i].end_ns - t->slices[i].start_ns;
		*ret_cpus += t->slices[i].cpu != last;
		last = t->slices[i].cpu;
	}
	TIMELINE_EACH (t, i, 1 << SPAN_RUNNABLE)
		wanted_ns += t->spans[i].end_ns - t->spans[i].start_ns;
	return t->end_ns > t->start_ns ? (double)wanted_ns / (double)(t->end_ns - t->start_ns) : 0;
}

static double tasks_per_batch(const struct timeline *t)
{
	return t->n_batches ? (double)t->n_batch_tasks / t->n_batches : 0;
}

static void write_throttled(const struct shares *shares, unsigned percent,
			    char text[static ADVICE_TEXT])
{
	const struct quota *quota = find_quota(shares);
	const char *path = quota && quota->name < shares->timeline->n_names
				   ? shares->timeline->names[quota->name].name
				   : "";
	size_t skipped = strlen(path) > CGROUP_SHOWN ? strlen(path) - CGROUP_SHOWN : 0;
	char limit[QUOTA_TEXT];

	snprintf(
		text, ADVICE_TEXT,
		"%u %% of the requests' time they are throttled: cgroup %s%s has a quota of %s. A higher quota (cpu.max, or cpu.cfs_quota_us) or fewer "
		"threads in the server's pools would shorten it.",
		percent, skipped ? "…" : "", *path ? path + skipped : "unknown",
		quota_text(quota ? quota->quota_ns : 0, quota ? quota->period_ns : 0, limit));
}

static void write_held(const struct shares *shares, unsigned percent, char text[static ADVICE_TEXT])
{
	static const char *const advice[HELD_REASONS] = {
		[HELD_UNKNOWN] = "the network device or the queue before it holds them up.",
		[HELD_NAGLE] =
			"it is less than a segment, and waits for the client's ACK of what was written before: write header and body in one call, or set TCP_NODELAY.",
		[HELD_CORK] =
			"TCP_CORK or MSG_MORE is set, and not taken back: end it with the answer.",
		[HELD_WINDOW] =
			"the clients' receive windows are full: they read slowly, or the answers are large.",
		[HELD_CONGESTION] =
			"the congestion window is full: the network is slow, or the answers are large.",
	};
	enum held_reason most = 0;

	for (enum held_reason i = 1; i < HELD_REASONS; i++)
		if (shares->held_ns[i] > shares->held_ns[most])
			most = i;
	snprintf(text, ADVICE_TEXT,
		 "%u %% of the requests' time the end of their answer stays in the socket: %s",
		 percent, advice[most]);
}

static void write_sentence(const struct shares *shares, enum wait wait, unsigned percent,
			   char text[static ADVICE_TEXT])
{
	const struct timeline *t = shares->timeline;
	unsigned cpus;
	double wanted;

	switch (wait) {
	case WAIT_CPU:
		wanted = wanted_cpus(t, &cpus);
		snprintf(
			text, ADVICE_TEXT,
			"%u %% of the requests' time they wait for a CPU: on average %.1f threads wanted one, and they ran on %u. Fewer threads in the server's pools "
			"(such as inter_op_parallelism_threads), fewer requests at a time or more CPUs would shorten it.",
			percent, wanted, cpus);
		break;
	case WAIT_QUOTA:
		write_throttled(shares, percent, text);
		break;
	case WAIT_SENT:
		write_held(shares, percent, text);
		break;
	case WAIT_ACCEPT:
	case WAIT_FIRST_READ:
		snprintf(
			text, ADVICE_TEXT,
			"%u %% of the requests' time their connections wait to be accepted%s: a thread that only accepts, more processes that do, or clients "
			"that keep their connections would shorten it.",
			percent, wait == WAIT_ACCEPT ? "" : ", or, once they are, to be read");
		break;
	case WAIT_QUEUE:
		snprintf(
			text, ADVICE_TEXT,
			"%u %% of the requests' time no thread has taken them up: more threads that serve, or fewer requests at a time, would shorten it.",
			percent);
		break;
	case WAIT_BATCH:
		snprintf(
			text, ADVICE_TEXT,
			"%u %% of the requests' time they wait in a batch queue, for batches of %.1f tasks on average: a shorter timeout, or smaller batches, would "
			"shorten it, at the price of more batches.",
			percent, tasks_per_batch(t));
		break;
	case WAIT_BLOCKED:
		snprintf(
			text, ADVICE_TEXT,
			"%u %% of the requests' time their thread is blocked while it works for them%s%.60s: a lock, a file or another service holds them up.",
			percent, shares->blocked_in == TEXT_NONE ? "" : ", most of it in ",
			shares->blocked_in == TEXT_NONE ? "" : t->names[shares->blocked_in].name);
		break;
	case WAIT_READ:
		snprintf(
			text, ADVICE_TEXT,
			"%u %% of the requests' time the rest of them is awaited: clients send slowly, or the requests are large.",
			percent);
		break;
	default:
		snprintf(
			text, ADVICE_TEXT,
			"%u %% of the requests' time their answer waits for the socket: clients read slowly, or the answers are large.",
			percent);
		break;
	}
}

void advice_make(const struct timeline *t, struct advice *ret)
{
	_cleanup_free_ uint64_t *blocked_ns = calloc((size_t)t->n_names + 1, sizeof(blocked_ns[0]));
	struct shares shares = { .timeline = t };

	ret->n = 0;
	if (!blocked_ns)
		return;
	sum_up(&shares, blocked_ns);
	find_blocked(&shares, blocked_ns);
	while (shares.n_requests >= REQUESTS_MIN && shares.total_ns && ret->n < ADVICE_MAX) {
		enum wait most = 0;
		unsigned percent;

		for (enum wait wait = 1; wait < WAIT_COUNT; wait++)
			if (shares.waits_ns[wait] > shares.waits_ns[most])
				most = wait;
		percent = (unsigned)(shares.waits_ns[most] * 100 / shares.total_ns);
		if (percent < SHARE_MIN)
			break;
		write_sentence(&shares, most, percent, ret->texts[ret->n++]);
		shares.waits_ns[most] = 0;
	}
}
