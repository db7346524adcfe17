/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded events, delivered in many ways: whatever order they arrive in, whichever of them are
 * lost, and wherever the window begins and ends, no request gets data of another one, what may be
 * incomplete is marked, and everything else is unchanged.
 */
#include "tests/unit/check.h"

#include <errno.h>
#include <stdarg.h>

#include "daemon/capture/recording.h"
#include "daemon/capture/replay.h"
#include "daemon/export/summary/request_summary.h"
#include "daemon/record/store.h"
#include "daemon/recorder/flight.h"
#include "tests/unit/recorded.h"

#define RECORDINGS "tests/recordings"
#define SEEDS 24
/* As a session has them: what it waits for records that come late, and how often it reads the
 * rings. */
#define REORDER_NS 100000000ull
#define DRAIN_NS 20000000ull
#define STORE_BYTES (64ull << 20)
#define LOSSES_MAX 64
#define FLOWS_MAX 64
#define TOLD_MAX 30
#define NOT_FOUND UINT32_MAX

struct known_run {
	uint64_t start_ns;
	uint32_t tid, request; /* index + 1 */
};

/* A recording, and its result without disturbances. */
struct truth {
	struct recorded recorded;
	struct timeline *t;
	struct known_run *runs;
	size_t n_runs;
};

static const char *const names[] = { "rest", "pipelined", "async", "grpc", "python" };
#define N_TRUTHS ARRAY_SIZE(names)
static struct truth truths[N_TRUTHS];

/* One delivery, and its result. */
struct trial {
	const struct truth *truth;
	struct delivery d;
	struct interval losses[LOSSES_MAX];
	struct timeline *t;
	uint32_t *match; /* of t's requests: index into the truth's, NOT_FOUND */
	uint32_t *found; /* of the truth's requests: index into t's, NOT_FOUND */
	const char *what;
	unsigned seed;
};

/* How much was still attributed, of what could have been: a correlator that attributes nothing is
 * never wrong. */
static struct {
	uint64_t requests, whole, runs, runs_known;
} said;

static uint64_t random_state;

static uint64_t random_next(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state * 0x2545f4914f6cdd1dull >> 16) % below;
}

static void random_begin(unsigned seed)
{
	random_state = 0x9e3779b97f4a7c15ull * (seed + 1);
	random_next(2);
}

__attribute__((format(printf, 2, 3))) static void wrong(const struct trial *trial,
							const char *format, ...)
{
	static unsigned n_told;
	va_list ap;

	check_failures++;
	if (n_told++ >= TOLD_MAX)
		return;
	fprintf(stderr, "  %s, %s, seed %u: ", trial->truth->recorded.name, trial->what,
		trial->seed);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
}

static int compare_runs(const void *a, const void *b)
{
	const struct known_run *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static bool is_outermost_run(const struct span *s)
{
	return s->kind == SPAN_RUN && !(s->flags & SPAN_INNER);
}

static void load(struct truth *t, const char *name)
{
	struct delivery d;

	t->recorded = recorded_load(RECORDINGS, name);
	d = (struct delivery){ .start_ns = t->recorded.start_ns,
			       .stop_ns = t->recorded.stop_ns,
			       .records = (const struct record **)t->recorded.records,
			       .n = t->recorded.n };
	t->t = recorded_correlate(&t->recorded, &d);
	CHECK(t->t && t->t->n_requests > 50);
	if (!t->t)
		exit(1);
	t->runs = calloc(t->t->n_spans + 1, sizeof(t->runs[0]));
	for (uint64_t i = 0; i < t->t->n_spans; i++) {
		const struct span *s = &t->t->spans[i];

		if (is_outermost_run(s))
			t->runs[t->n_runs++] =
				(struct known_run){ s->start_ns, t->t->threads[s->thread].tid,
						    s->request };
	}
	qsort(t->runs, t->n_runs, sizeof(t->runs[0]), compare_runs);
}

static const struct truth *truth_get(size_t i)
{
	if (!truths[i].t)
		load(&truths[i], names[i]);
	return &truths[i];
}

enum match_by { BY_STREAM, BY_ANSWER, BY_READ, BY_END, N_MATCHES };

/* Whether both are what is known of the same request, by one of the things that tell requests
 * apart. */
static bool is_same_request(const struct request *a, const struct request *b, enum match_by by)
{
	if (a->peer_port != b->peer_port || a->protocol != b->protocol ||
	    (by == BY_STREAM) != (a->protocol == PROTOCOL_HTTP2))
		return false;
	if (by == BY_STREAM)
		return a->stream == b->stream;
	if (by == BY_ANSWER)
		return a->write_start_ns && a->write_start_ns == b->write_start_ns;
	if (by == BY_READ)
		return a->read_start_ns && a->read_start_ns == b->read_start_ns;
	return a->end_ns == b->end_ns;
}

/* Requests that one call read, or whose answers one call wrote, are taken in their order. */
static void match_requests(struct trial *trial)
{
	const struct timeline *whole = trial->truth->t, *t = trial->t;

	trial->match = calloc(t->n_requests + 1, sizeof(trial->match[0]));
	trial->found = calloc(whole->n_requests + 1, sizeof(trial->found[0]));
	for (uint32_t i = 0; i < t->n_requests; i++)
		trial->match[i] = NOT_FOUND;
	for (uint32_t i = 0; i < whole->n_requests; i++)
		trial->found[i] = NOT_FOUND;
	for (enum match_by by = 0; by < N_MATCHES; by++)
		for (uint32_t i = 0; i < t->n_requests; i++)
			for (uint32_t k = 0; k < whole->n_requests && trial->match[i] == NOT_FOUND;
			     k++)
				if (trial->found[k] == NOT_FOUND &&
				    is_same_request(&t->requests[i], &whole->requests[k], by)) {
					trial->match[i] = k;
					trial->found[k] = i;
				}
}

static unsigned long long offset(const struct trial *trial, uint64_t time)
{
	return time - trial->truth->recorded.start_ns;
}

/* Phases do not overlap, are not negative, and leave nothing out. */
static void check_phases(const struct trial *trial)
{
	const struct timeline *t = trial->t;
	uint64_t first = 0;

	for (uint32_t i = 0; i < t->n_requests; i++) {
		const struct request *q = &t->requests[i];
		uint64_t at = q->start_ns, sum = 0, phases[PHASE_COUNT] = {};

		if (q->start_ns < t->start_ns || q->end_ns < q->start_ns || q->end_ns > t->end_ns)
			wrong(trial, "request %u is from %lld to %lld", i,
			      offset(trial, q->start_ns), offset(trial, q->end_ns));
		if (q->first_segment != first)
			wrong(trial, "request %u: its segments begin at %llu", i,
			      (unsigned long long)q->first_segment);
		first += q->n_segments;
		for (uint64_t k = q->first_segment; k < first && first <= t->n_segments; k++) {
			const struct segment *s = &t->segments[k];

			if (s->start_ns != at || s->end_ns <= s->start_ns ||
			    s->phase >= PHASE_COUNT)
				wrong(trial, "request %u: a segment is from %lld to %lld", i,
				      offset(trial, s->start_ns), offset(trial, s->end_ns));
			at = s->end_ns;
			phases[s->phase % PHASE_COUNT] += s->end_ns - s->start_ns;
		}
		if (at != q->end_ns || memcmp(phases, q->phases, sizeof(phases)))
			wrong(trial,
			      "request %u: its segments are not its phases, or end before it", i);
		for (unsigned k = 0; k < PHASE_COUNT; k++)
			sum += q->phases[k];
		if (sum != q->end_ns - q->start_ns)
			wrong(trial, "request %u: its phases are not its latency", i);
	}
	if (first != t->n_segments)
		wrong(trial, "segments are nobody's");
}

/* Whether the run, which is unattributed in the truth, can only have belonged to that request: the
 * loss of other records may remove the ambiguity. */
static bool is_only_one(const struct timeline *whole, const struct span *run, uint32_t request)
{
	for (uint32_t i = 0; i < whole->n_requests; i++) {
		const struct request *q = &whole->requests[i];
		bool fits = (!q->read_end_ns || q->read_end_ns <= run->start_ns) &&
			    (!q->write_start_ns || q->write_start_ns >= run->end_ns);

		if (fits != (i == request) && !q->n_runs)
			return false;
	}
	return request < whole->n_requests && !whole->requests[request].n_runs;
}

/* A run has the request that it has in the truth, or none. */
static void check_parents(const struct trial *trial)
{
	const struct timeline *t = trial->t;

	for (uint64_t i = 0; i < t->n_spans; i++) {
		const struct span *s = &t->spans[i];
		struct known_run key = { s->start_ns, t->threads[s->thread].tid, 0 }, *known;
		uint32_t match;

		if (!s->request || s->flags & SPAN_TRUNCATED_START)
			continue;
		known = bsearch(&key, trial->truth->runs, trial->truth->n_runs, sizeof(key),
				compare_runs);
		match = s->request <= t->n_requests ? trial->match[s->request - 1] : NOT_FOUND;
		if (s->kind != SPAN_RUN || !known)
			wrong(trial, "what began at %llu on thread %u is no run",
			      offset(trial, s->start_ns), key.tid);
		else if (known->request != match + 1 &&
			 (known->request || !is_only_one(trial->truth->t, s, match)))
			wrong(trial,
			      "the run at %llu on thread %u is of request %d, not %d (-1: none), which %s",
			      offset(trial, s->start_ns), key.tid, (int)known->request - 1,
			      (int)match, s->flags & SPAN_INFERRED ? "is inferred" : "is exact");
	}
}

static const char *text_of(const struct timeline *t, uint32_t text)
{
	return text < t->n_texts ? t->texts[text] : "";
}

static uint32_t tid_of(const struct timeline *t, uint32_t thread)
{
	return thread < t->n_threads ? t->threads[thread].tid : 0;
}

/* A text can be missing, since what it refers to may have come before the window, or have been
 * lost. */
static bool is_text_same(const struct timeline *a, uint32_t x, const struct timeline *b, uint32_t y)
{
	return x == TEXT_NONE || !strcmp(text_of(a, x), text_of(b, y));
}

/* Since when a loss may have changed what is known of the request's beginning: since something last
 * came to its connection. */
static uint64_t known_since(const struct trial *trial, const struct request *q)
{
	const struct timeline *whole = trial->truth->t;
	uint64_t since = trial->d.start_ns;

	for (uint32_t i = 0; i < whole->n_requests && whole->requests[i].start_ns < q->start_ns;
	     i++)
		if (whole->requests[i].peer_port == q->peer_port &&
		    !(whole->requests[i].flags & REQUEST_NO_ARRIVAL))
			since = MAX(since, whole->requests[i].start_ns);
	return since;
}

/* Everything reported about the request matches the truth. */
static bool is_as_in_truth(const struct trial *trial, const struct request *q,
			   const struct request *p)
{
	const struct timeline *t = trial->t, *whole = trial->truth->t;
	/* Of a call that was entered before the window that is not known; it may read what came
	 * within. */
	bool entered = q->read_start_ns == p->read_start_ns || known_since(trial, p) == t->start_ns;

	return entered && q->start_ns == p->start_ns && q->read_end_ns == p->read_end_ns &&
	       q->write_start_ns == p->write_start_ns && q->end_ns == p->end_ns &&
	       q->flags == p->flags && q->bytes_in == p->bytes_in && q->bytes_out == p->bytes_out &&
	       (q->status == p->status || q->status == -1) &&
	       (q->grpc_status == p->grpc_status || q->grpc_status == -1) &&
	       tid_of(t, q->read_thread) == tid_of(whole, p->read_thread) &&
	       tid_of(t, q->write_thread) == tid_of(whole, p->write_thread) &&
	       is_text_same(t, q->path, whole, p->path) &&
	       is_text_same(t, q->method, whole, p->method) &&
	       is_text_same(t, q->model, whole, p->model) &&
	       (q->n_runs <= p->n_runs || q->attribution == ATTRIBUTION_INFERRED);
}

static bool is_lost_within(const struct trial *trial, uint64_t from, uint64_t to)
{
	for (size_t i = 0; i < trial->d.n_losses; i++)
		if (trial->d.losses[i].from_ns <= to && trial->d.losses[i].to_ns >= from)
			return true;
	return false;
}

static bool is_whole(const struct request *q)
{
	return !(q->flags & REQUEST_NOT_WHOLE);
}

/* What is shown as whole is so, was in the window, and had no loss. */
static void check_whole(const struct trial *trial)
{
	const struct timeline *t = trial->t, *whole = trial->truth->t;

	for (uint32_t i = 0; i < t->n_requests; i++) {
		const struct request *q = &t->requests[i];
		const struct request *p =
			trial->match[i] == NOT_FOUND ? NULL : &whole->requests[trial->match[i]];

		if (!is_whole(q))
			continue;
		if (!p)
			wrong(trial, "request %u from %llu to %llu never was", i,
			      offset(trial, q->start_ns), offset(trial, q->end_ns));
		else if (!is_as_in_truth(trial, q, p))
			wrong(trial,
			      "request %u from %llu to %llu (flags %x) was from %llu to %llu (flags %x), or is else not as it was",
			      i, offset(trial, q->start_ns), offset(trial, q->end_ns), q->flags,
			      offset(trial, p->start_ns), offset(trial, p->end_ns), p->flags);
		else if (p->start_ns < t->start_ns || p->end_ns >= t->end_ns ||
			 is_lost_within(trial, p->start_ns, p->end_ns))
			wrong(trial, "request %u from %llu to %llu is not whole, and is not marked",
			      i, offset(trial, q->start_ns), offset(trial, q->end_ns));
	}
}

/* What no loss and no edge of the window touched is there, as it was. */
static void check_untouched(const struct trial *trial)
{
	const struct timeline *t = trial->t, *whole = trial->truth->t;

	for (uint32_t i = 0; i < whole->n_requests; i++) {
		const struct request *p = &whole->requests[i];
		const struct request *q =
			trial->found[i] == NOT_FOUND ? NULL : &t->requests[trial->found[i]];

		if (!is_whole(p) || p->start_ns < t->start_ns || p->end_ns >= t->end_ns ||
		    is_lost_within(trial, p->start_ns, p->end_ns))
			continue;
		said.requests++;
		said.runs += p->n_runs;
		said.whole += q && is_whole(q);
		said.runs_known += q ? q->n_runs : 0;
		if (is_lost_within(trial, known_since(trial, p), p->end_ns))
			continue;
		if (q && q->flags & (REQUEST_TRUNCATED_START | REQUEST_LOST) &&
		    known_since(trial, p) == t->start_ns)
			continue;
		if (!q || !is_whole(q))
			wrong(trial,
			      "request %u from %llu to %llu (port %u, stream %u) is %s, flags %x",
			      i, offset(trial, p->start_ns), offset(trial, p->end_ns), p->peer_port,
			      p->stream, q ? "not whole" : "missing", q ? q->flags : 0);
	}
}

/* What the window's edges truncate is marked, is no longer than it was, and nothing else is. */
static void check_cut(const struct trial *trial)
{
	const struct timeline *t = trial->t, *whole = trial->truth->t;

	for (uint32_t i = 0; i < t->n_requests; i++) {
		const struct request *q = &t->requests[i];
		const struct request *p =
			trial->match[i] == NOT_FOUND ? NULL : &whole->requests[trial->match[i]];

		if (!p || q->flags & REQUEST_LOST)
			continue;
		if (p->start_ns < t->start_ns && !(q->flags & REQUEST_TRUNCATED_START))
			wrong(trial,
			      "request %u began before the window, at %lld, and is not marked (flags %x)",
			      i, offset(trial, p->start_ns), q->flags);
		if (p->end_ns >= t->end_ns && !(q->flags & REQUEST_TRUNCATED_END))
			wrong(trial,
			      "request %u ended after the window, at %lld, and is not marked (flags %x)",
			      i, offset(trial, p->end_ns), q->flags);
		/* Whether what came first to a connection, with more, had waited there is not
		 * known. */
		if (p->start_ns >= t->start_ns && known_since(trial, p) != t->start_ns &&
		    !(p->flags & REQUEST_TRUNCATED_START) && q->flags & REQUEST_TRUNCATED_START)
			wrong(trial,
			      "request %u is marked as begun before the window, and began at %lld",
			      i, offset(trial, p->start_ns));
		if (p->end_ns < t->end_ns && !(p->flags & REQUEST_TRUNCATED_END) &&
		    q->flags & REQUEST_TRUNCATED_END)
			wrong(trial,
			      "request %u is marked as ended after the window, and ended at %lld",
			      i, offset(trial, p->end_ns));
		if (q->start_ns < p->start_ns || q->end_ns > p->end_ns)
			wrong(trial,
			      "request %u is from %lld to %lld, longer than from %lld to %lld", i,
			      offset(trial, q->start_ns), offset(trial, q->end_ns),
			      offset(trial, p->start_ns), offset(trial, p->end_ns));
	}
}

/* Percentiles are those of whole requests. */
static void check_summary(const struct trial *trial)
{
	const struct timeline *t = trial->t;
	struct request_summary s = {};
	uint64_t n = 0, sum = 0, max = 0;

	for (uint32_t i = 0; i < t->n_requests; i++) {
		uint64_t latency = t->requests[i].end_ns - t->requests[i].start_ns;

		if (!is_whole(&t->requests[i]))
			continue;
		n++;
		sum += latency;
		max = MAX(max, latency);
	}
	CHECK_EQ(request_summary_make(t, &s), 0);
	if (s.n_whole != n || s.latency.sum_ns != sum || s.latency.max_ns != max ||
	    s.n_whole + s.n_truncated + s.n_lost + s.n_reset != t->n_requests)
		wrong(trial, "the summary has %llu whole requests of %llu",
		      (unsigned long long)s.n_whole, (unsigned long long)n);
	request_summary_done(&s);
}

static void check_said(unsigned percent)
{
	CHECK(said.requests > 0 && said.whole * 100 >= said.requests * percent);
	CHECK(said.runs > 0 && said.runs_known * 100 >= said.runs * percent);
	if (check_failures)
		fprintf(stderr, "  whole: %llu of %llu requests, with %llu of %llu runs\n",
			(unsigned long long)said.whole, (unsigned long long)said.requests,
			(unsigned long long)said.runs_known, (unsigned long long)said.runs);
	said = (__typeof__(said)){};
}

static void trial_make(struct trial *trial)
{
	trial->d.losses = trial->losses;
	trial->t = recorded_correlate(&trial->truth->recorded, &trial->d);
	if (!trial->t) {
		wrong(trial, "it failed");
		exit(1);
	}
	match_requests(trial);
}

static void trial_check(const struct trial *trial)
{
	check_phases(trial);
	check_parents(trial);
	check_whole(trial);
	check_untouched(trial);
	check_cut(trial);
	check_summary(trial);
}

static void trial_run(struct trial *trial)
{
	trial_make(trial);
	trial_check(trial);
}

static void trial_done(struct trial *trial)
{
	timeline_free(trial->t);
	free(trial->match);
	free(trial->found);
	free(trial->d.records);
}

static struct trial trial_new(const struct truth *truth, const char *what, unsigned seed)
{
	struct trial trial = { .truth = truth, .what = what, .seed = seed };

	random_begin(seed);
	trial.d.start_ns = truth->recorded.start_ns;
	trial.d.stop_ns = truth->recorded.stop_ns;
	trial.d.records = calloc(truth->recorded.n + 1, sizeof(trial.d.records[0]));
	return trial;
}

/* Records were lost at that time: the grid's interval around it is reported. Times are in order. */
static void note_loss(struct trial *trial, uint64_t time, uint64_t grid)
{
	struct interval at = { .from_ns = time - time % grid, .to_ns = time - time % grid + grid };
	struct interval *last = trial->d.n_losses ? &trial->losses[trial->d.n_losses - 1] : NULL;

	if (last && last->to_ns >= at.from_ns)
		last->to_ns = at.to_ns;
	else if (trial->d.n_losses < LOSSES_MAX)
		trial->losses[trial->d.n_losses++] = at;
}

static int compare_times(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Without the records that are chosen. */
static void lose(struct trial *trial, const bool *lost, uint64_t grid)
{
	const struct recorded *r = &trial->truth->recorded;
	uint64_t *times = calloc(r->n + 1, sizeof(times[0]));
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		if (lost[i])
			times[n++] = r->records[i]->time;
		else
			trial->d.records[trial->d.n++] = r->records[i];
	qsort(times, n, sizeof(times[0]), compare_times);
	for (size_t i = 0; i < n && grid; i++)
		note_loss(trial, times[i], grid);
	free(times);
}

enum loss_kind { LOSS_SINGLE, LOSS_BURST, LOSS_KIND, N_LOSS_KINDS };

static const char *const loss_names[] = { "single records lost", "bursts lost",
					  "a kind of records lost" };

static void choose_lost(bool *lost, const struct recorded *r, enum loss_kind kind)
{
	static const uint8_t kinds[] = { RECORD_MESSAGE, RECORD_FIELD,   RECORD_READY,
					 RECORD_PROBE,   RECORD_SWITCH,  RECORD_WAKE,
					 RECORD_MESSAGE, RECORD_ACCEPTED };
	uint8_t which = kinds[random_next(ARRAY_SIZE(kinds))];
	unsigned n = 1 + (unsigned)random_next(3);
	size_t from, length;

	for (unsigned i = 0; i < n; i++) {
		from = random_next(r->n);
		length = kind == LOSS_SINGLE ? 1 : 1 + random_next(kind == LOSS_BURST ? 400 : 1500);
		/* A single record that matters. */
		while (kind == LOSS_SINGLE && random_next(16) &&
		       r->records[from]->kind != RECORD_MESSAGE)
			from = (from + 1) % r->n;
		for (size_t k = from; k < MIN(from + length, r->n); k++)
			lost[k] |= kind != LOSS_KIND || r->records[k]->kind == which;
	}
}

TEST(requests_with_lost_records_are_never_shown_as_whole_or_confused)
{
	static const uint64_t grids[] = { 1000000, 1000000, 5000000, DRAIN_NS };

	for (size_t i = 0; i < N_TRUTHS; i++)
		for (unsigned kind = 0; kind < N_LOSS_KINDS; kind++)
			for (unsigned seed = 0; seed < SEEDS; seed++) {
				const struct truth *truth = truth_get(i);
				struct trial trial = trial_new(truth, loss_names[kind], seed);
				bool *lost = calloc(truth->recorded.n, sizeof(lost[0]));

				choose_lost(lost, &truth->recorded, kind);
				lose(&trial, lost, grids[seed % ARRAY_SIZE(grids)]);
				trial_run(&trial);
				free(lost);
				trial_done(&trial);
			}
	check_said(80);
}

/* A time between two records, often just behind one of a message, or of what came to a socket. */
static uint64_t choose_edge(const struct recorded *r, size_t from, size_t to)
{
	size_t at = from + random_next(to - from);

	while (random_next(8) && at + 1 < to && r->records[at]->kind != RECORD_MESSAGE &&
	       r->records[at]->kind != RECORD_READY)
		at++;
	return MIN(r->records[at]->time + random_next(2), r->stop_ns);
}

TEST(requests_at_the_end_of_the_window_are_marked_as_truncated)
{
	for (size_t i = 0; i < N_TRUTHS; i++)
		for (unsigned seed = 0; seed < SEEDS * 2; seed++) {
			const struct recorded *r = &truth_get(i)->recorded;
			struct trial trial = trial_new(truth_get(i), "the window ends early", seed);

			trial.d.stop_ns = choose_edge(r, r->n / 4, r->n);
			while (trial.d.n < r->n && r->records[trial.d.n]->time < trial.d.stop_ns) {
				trial.d.records[trial.d.n] = r->records[trial.d.n];
				trial.d.n++;
			}
			trial_run(&trial);
			trial_done(&trial);
		}
	check_said(99);
}

/* One direction of a connection, as the kernel's programs know it when the window opens. */
struct flow {
	uint64_t socket, call_ns;
	uint32_t inode, call_tid, ordinal, inserted;
	uint8_t direction;
	bool followed;
};

static struct flow *flow_get(struct flow *flows, uint64_t socket, uint32_t inode, uint8_t direction)
{
	for (unsigned i = 0; i < FLOWS_MAX; i++) {
		struct flow *f = &flows[i];

		if (!f->socket)
			*f = (struct flow){ .socket = socket,
					    .inode = inode,
					    .direction = direction };
		if (f->socket == socket && f->inode == inode && f->direction == direction)
			return f;
	}
	return &flows[0];
}

/* Bytes are followed from the first call on that begins with a message, or with a frame. */
static bool flow_follows(struct flow *f, const struct recorded *r, size_t at)
{
	const struct record *head = r->records[at];

	if (f->followed || (f->call_ns == head->time && f->call_tid == head->tid))
		return f->followed;
	f->call_ns = head->time;
	f->call_tid = head->tid;
	for (size_t i = at; i < r->n && r->records[i]->time == head->time && !f->followed; i++) {
		const struct record_message *m = (const void *)r->records[i];

		if (m->head.tid == head->tid && m->head.kind == RECORD_MESSAGE &&
		    m->socket == f->socket && m->direction == f->direction) {
			f->followed = m->part & (MESSAGE_FIRST | MESSAGE_CLOSED);
			break;
		}
	}
	return f->followed;
}

static void restart_message(struct flow *f, struct record_message *m, uint64_t start)
{
	struct record_headers *h = (void *)m;

	m->ordinal -= f->ordinal;
	/* The call's entry was not seen. */
	if (m->began < start)
		m->began = m->head.time;
	if (m->head.size8 * 8u < sizeof(*h))
		return;
	h->inserted -= f->inserted;
	for (unsigned i = 0; i < h->n_references && i < RECORD_REFERENCES; i++)
		h->references[i] = (uint16_t)(h->references[i] - f->inserted);
}

/*
 * What the kernel's programs would have sent, had the window opened at that time: of each
 * connection they know only what passed since then. The records that differ are copies in
 * *ret_memory.
 */
static void restart(struct trial *trial, uint64_t start, void **ret_memory)
{
	const struct recorded *r = &trial->truth->recorded;
	struct flow flows[FLOWS_MAX] = {};
	struct record_field *copies = calloc(r->n, sizeof(copies[0])), *copy = copies;

	trial->d.start_ns = start;
	for (size_t i = 0; i < r->n; i++) {
		const struct record *record = r->records[i];
		const struct record_message *m = (const void *)record;
		const struct record_field *field = (const void *)record;
		struct flow *f =
			record->kind == RECORD_MESSAGE
				? flow_get(flows, m->socket, m->inode, m->direction)
			: record->kind == RECORD_FIELD
				? flow_get(flows, field->socket, field->inode, field->direction)
				: NULL;

		if (record->time < start && f && record->kind == RECORD_MESSAGE) {
			f->ordinal = m->ordinal;
			if (record->size8 * 8u >= sizeof(struct record_headers))
				f->inserted = ((const struct record_headers *)m)->inserted;
		}
		if (record->time < start)
			continue;
		/* Of a message that goes on, the kernel counts the next one first. */
		if (f && !f->followed && flow_follows(f, r, i) && m->head.kind == RECORD_MESSAGE)
			f->ordinal = m->ordinal - 1;
		if (f && !f->followed)
			continue;
		if (f) {
			memcpy(copy, record, record->size8 * 8u);
			if (record->kind == RECORD_MESSAGE)
				restart_message(f, (void *)copy, start);
			else
				copy->number -= f->inserted;
			record = &copy++->head;
		}
		trial->d.records[trial->d.n++] = record;
	}
	*ret_memory = copies;
}

TEST(requests_at_the_start_of_the_window_are_marked_as_truncated)
{
	for (size_t i = 0; i < N_TRUTHS; i++)
		for (unsigned seed = 0; seed < SEEDS * 2; seed++) {
			struct trial trial = trial_new(truth_get(i), "the window opens late", seed);
			void *memory;

			restart(&trial,
				choose_edge(&trial.truth->recorded, 0,
					    trial.truth->recorded.n * 3 / 4),
				&memory);
			trial_run(&trial);
			trial_done(&trial);
			free(memory);
		}
	check_said(90);
}

/* As above, but with the kernel's programs knowing what passed before: all records until then were
 * lost. */
TEST(a_lost_beginning_is_like_a_late_one)
{
	for (size_t i = 0; i < N_TRUTHS; i++)
		for (unsigned seed = 0; seed < SEEDS; seed++) {
			const struct recorded *r = &truth_get(i)->recorded;
			struct trial trial =
				trial_new(truth_get(i), "the beginning is missing", seed);
			uint64_t start = choose_edge(r, 0, r->n * 3 / 4);

			trial.d.start_ns = start;
			note_loss(&trial, start, 1);
			for (size_t k = 0; k < r->n; k++)
				if (r->records[k]->time >= start)
					trial.d.records[trial.d.n++] = r->records[k];
			trial_run(&trial);
			trial_done(&trial);
		}
	check_said(85);
}

/* Paths that HPACK's tables hold are known, also when they were put there before the window. */
static void check_paths(const struct trial *trial)
{
	for (uint32_t i = 0; i < trial->t->n_requests; i++) {
		const struct request *q = &trial->t->requests[i];
		const struct request *known = trial->match[i] == NOT_FOUND
						      ? NULL
						      : &trial->truth->t->requests[trial->match[i]];

		if (known && !(q->flags & REQUEST_NOT_WHOLE) &&
		    strcmp(text_of(trial->t, q->path), text_of(trial->truth->t, known->path)))
			wrong(trial, "request %u has the path '%s', not '%s'", i,
			      text_of(trial->t, q->path), text_of(trial->truth->t, known->path));
	}
}

/* What a recorder that keeps so many bytes knows of a recording; NULL: it failed. */
static struct flight_view *fly(const struct recorded *r, uint64_t bytes)
{
	struct flight_view *view = NULL;
	const struct record_sink *sink;
	struct flight *flight = NULL;
	int error = flight_new(bytes, 1, &flight);

	sink = flight_sink(flight);
	for (unsigned i = 0; i < r->n_targets && !error; i++) {
		error = sink->target(&r->targets[i], sink->data);
		if (!error)
			error = sink->layout(i, 0, &r->layouts[i], sink->data);
	}
	for (size_t i = 0; i < r->n && !error; i++)
		error = sink->record(r->records[i], sink->data);
	if (!error)
		error = flight_view_new(flight, &view);
	/* The view is all that is needed from here on. */
	flight_free(flight);
	return view;
}

/* And what it makes of a window. */
static void trial_fly(struct trial *trial, uint64_t bytes)
{
	struct flight_view *view = fly(&trial->truth->recorded, bytes);
	struct flight_facts facts = {};
	struct request_filter all = {};
	int error = view ? 0 : -ENOMEM;

	CHECK(view);
	trial->d.start_ns = MAX(trial->d.start_ns, flight_view_oldest(view));
	if (!error)
		error = flight_view_correlate(view, trial->d.start_ns, trial->d.stop_ns, 0, &all,
					      &facts, &trial->t);
	CHECK(!facts.lead_in_is_incomplete);
	flight_view_free(view);
	if (error < 0) {
		wrong(trial, "it failed");
		exit(1);
	}
	match_requests(trial);
	trial_check(trial);
	check_paths(trial);
}

TEST(a_snapshot_equals_a_capture_of_its_window)
{
	for (size_t i = 0; i < N_TRUTHS; i++)
		for (unsigned seed = 0; seed < SEEDS * 2; seed++) {
			const struct recorded *r = &truth_get(i)->recorded;
			/* Most of it is kept, or as little as can be: then the window begins where
			 * that does. */
			struct trial trial = trial_new(truth_get(i),
						       seed % 2 ? "a snapshot of the middle"
								: "a snapshot of the end",
						       seed);

			trial.d.start_ns = choose_edge(r, 0, r->n / 2);
			if (seed % 2)
				trial.d.stop_ns = choose_edge(r, r->n * 3 / 4, r->n);
			trial_fly(&trial, seed % 2 ? 64 << 20 : 512 << 10);
			trial_done(&trial);
		}
	check_said(90);
}

static uint8_t *collect(struct journal *j, size_t *ret_size)
{
	uint8_t *file = malloc(journal_bytes(j));
	const void *bytes;
	void *owner;
	size_t size;

	*ret_size = 0;
	while (journal_take(j, &bytes, &size, &owner)) {
		memcpy(file + *ret_size, bytes, size);
		*ret_size += size;
		journal_release(owner);
	}
	return file;
}

/* A recording of a view's window, as a trigger keeps it. */
static uint8_t *record_view(const struct flight_view *view, const struct result_facts *of,
			    size_t *ret_size)
{
	static struct journal_budget budget = { .max_bytes = 256u << 20 };
	const struct recording_note note = { .trigger = "slow", .reason = "why", .pid = 1 };
	struct recording *recording = calloc(1, sizeof(*recording));
	struct capture_result result = {};
	struct record_sinks sinks = {};
	struct request_filter all = {};
	struct flight_facts kept;
	struct journal *j = NULL;
	uint8_t *file;

	CHECK_EQ(journal_new(&budget, &j), 0);
	sinks_add(&sinks, recording_init(recording, j, &all));
	CHECK_EQ(flight_view_read(view, of->start_ns, of->stop_ns, &sinks, &kept), 0);
	recording_add_note(j, &note, 1, 2);
	CHECK_EQ(recording_end(j, of, &result), 0);
	CHECK_EQ(journal_finish(j), 0);
	file = collect(j, ret_size);
	journal_free(j);
	free(recording);
	return file;
}

static bool is_same_trace(const struct exported *a, const struct exported *b)
{
	bool same = a->n_chunks == b->n_chunks && a->size == b->size;

	for (size_t i = 0; same && i < a->n_chunks; i++)
		same = a->chunks[i].iov_len == b->chunks[i].iov_len &&
		       !memcmp(a->chunks[i].iov_base, b->chunks[i].iov_base, a->chunks[i].iov_len);
	return same;
}

static bool is_same_list(const struct request_list *a, const struct request_list *b)
{
	bool same = a->n_messages == b->n_messages && a->n_messages;

	for (size_t i = 0; same && i < a->n_messages; i++)
		same = a->messages[i].size == b->messages[i].size &&
		       !memcmp(a->messages[i].bytes, b->messages[i].bytes, a->messages[i].size);
	return same;
}

TEST(a_recording_of_a_snapshot_replays_to_the_snapshot)
{
	for (size_t i = 0; i < N_TRUTHS; i++)
		for (unsigned seed = 0; seed < 2; seed++) {
			struct trial trial = trial_new(truth_get(i), "a recorded snapshot", seed);
			struct flight_view *view =
				fly(&trial.truth->recorded, seed ? 64 << 20 : 512 << 10);
			struct result_facts facts = { .stop_ns = trial.d.stop_ns,
						      .detail.level = 2,
						      .requests.all = true,
						      .hostname = "host" };
			struct capture_result result = {};
			struct request_filter all = {};
			struct flight_facts kept;
			struct replay again;
			char error[256] = "";
			uint8_t *file;
			size_t size;

			facts.start_ns = MAX(
				choose_edge(&trial.truth->recorded, 0, trial.truth->recorded.n / 2),
				flight_view_oldest(view));
			CHECK_EQ(flight_view_correlate(view, facts.start_ns, facts.stop_ns, 0, &all,
						       &kept, &trial.t),
				 0);
			CHECK_EQ(result_make(trial.t, &facts, &result), 0);
			file = record_view(view, &facts, &size);
			CHECK_EQ(replay_make(file, size, &facts.requests, &(struct replay_extras){},
					     &again, error, sizeof(error)),
				 0);
			CHECK_STR(error, "");
			if (!is_same_trace(&result.trace, &again.result.trace) ||
			    !is_same_list(&result.requests, &again.result.requests))
				wrong(&trial, "the replay is another one");
			CHECK(result.trace.n_events > 100);
			replay_done(&again);
			result_done(&result);
			flight_view_free(view);
			free(file);
			trial_done(&trial);
		}
}

/* Of HTTP/1 the kernel counts messages: the next one shows that the record of one is missing. */
TEST(lost_http1_messages_are_detected_without_a_loss_record)
{
	for (size_t i = 0; i < N_TRUTHS; i++)
		for (unsigned seed = 0;
		     seed < SEEDS && truth_get(i)->t->requests[0].protocol == PROTOCOL_HTTP1;
		     seed++) {
			const struct recorded *r = &truth_get(i)->recorded;
			struct trial trial =
				trial_new(truth_get(i), "messages silently lost", seed);
			bool *lost = calloc(r->n, sizeof(lost[0]));
			size_t length = 1 + random_next(seed % 2 ? 1 : 200);

			for (unsigned k = 0; k < 4; k++)
				for (size_t at = random_next(r->n * 3 / 4), n = 0;
				     at < r->n * 3 / 4 && n < length; at++)
					if (r->records[at]->kind == RECORD_MESSAGE) {
						lost[at] = true;
						n++;
					}
			lose(&trial, lost, 0);
			trial_make(&trial);
			check_phases(&trial);
			check_parents(&trial);
			check_whole(&trial);
			free(lost);
			trial_done(&trial);
		}
}

static bool is_same_bytes(const void *a, uint64_t n_a, const void *b, uint64_t n_b, size_t size)
{
	return n_a == n_b && (!n_a || !memcmp(a, b, n_a * size));
}

static bool is_same_timeline(const struct timeline *a, const struct timeline *b)
{
	bool same =
		is_same_bytes(a->spans, a->n_spans, b->spans, b->n_spans, sizeof(a->spans[0])) &&
		is_same_bytes(a->segments, a->n_segments, b->segments, b->n_segments,
			      sizeof(a->segments[0])) &&
		is_same_bytes(a->slices, a->n_slices, b->slices, b->n_slices,
			      sizeof(a->slices[0])) &&
		is_same_bytes(a->batches, a->n_batches, b->batches, b->n_batches,
			      sizeof(a->batches[0])) &&
		is_same_bytes(a->batch_tasks, a->n_batch_tasks, b->batch_tasks, b->n_batch_tasks,
			      sizeof(a->batch_tasks[0])) &&
		a->n_requests == b->n_requests && a->n_threads == b->n_threads &&
		a->n_names == b->n_names && a->n_texts == b->n_texts;

	/* Behind what is compared is nothing but padding. */
	for (uint32_t i = 0; same && i < a->n_requests; i++)
		same = !memcmp(&a->requests[i], &b->requests[i],
			       offsetof(struct request, held_bytes) +
				       sizeof(a->requests[i].held_bytes));
	for (uint32_t i = 0; same && i < a->n_threads; i++)
		same = a->threads[i].tid == b->threads[i].tid &&
		       !strncmp(a->threads[i].name, b->threads[i].name, sizeof(a->threads[i].name));
	for (uint32_t i = 0; same && i < a->n_names; i++)
		same = !strcmp(a->names[i].name, b->names[i].name);
	for (uint32_t i = 0; same && i < a->n_texts; i++)
		same = !strcmp(a->texts[i], b->texts[i]);
	return same;
}

/* A record on its way through a ring. */
struct on_its_way {
	uint64_t comes_ns;
	size_t index;
	unsigned ring;
};

static int compare_ways(const void *a, const void *b)
{
	const struct on_its_way *x = a, *y = b;

	if (x->comes_ns != y->comes_ns)
		return x->comes_ns < y->comes_ns ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static int take_record(const struct record *record, void *data)
{
	struct trial *trial = data;
	struct record *copy = malloc(store_record_size(record));

	memcpy(copy, record, store_record_size(record));
	trial->d.records[trial->d.n++] = copy;
	return 0;
}

/* As a session does it: everything comes within the time that it waits, in whichever ring; what one
 * call sends stays together, on its CPU. */
static void deliver(struct trial *trial, const struct record *const *records)
{
	const size_t n = trial->truth->recorded.n;
	struct on_its_way *ways = calloc(n + 1, sizeof(ways[0]));
	uint64_t drained = records[0]->time;
	struct store *store = NULL;

	for (size_t i = 0; i < n; i++) {
		bool together = i && records[i]->time == records[i - 1]->time &&
				records[i]->tid == records[i - 1]->tid;

		ways[i] = (struct on_its_way){ .comes_ns = records[i]->time +
							   random_next(REORDER_NS / 2),
					       .index = i,
					       .ring = (unsigned)random_next(RECORD_MAX_RINGS) };
		if (together) {
			ways[i].comes_ns = ways[i - 1].comes_ns;
			ways[i].ring = ways[i - 1].ring;
		}
	}
	qsort(ways, n, sizeof(ways[0]), compare_ways);
	CHECK_EQ(store_new(RECORD_MAX_RINGS, STORE_BYTES, &store), 0);
	for (size_t i = 0; i < n; i++) {
		while (drained + DRAIN_NS <= ways[i].comes_ns) {
			drained += DRAIN_NS;
			CHECK_EQ(store_take(store, drained - REORDER_NS, take_record, trial), 0);
		}
		CHECK_EQ(store_add(store, ways[i].ring, records[ways[i].index],
				   store_record_size(records[ways[i].index])),
			 0);
	}
	CHECK_EQ(store_take(store, UINT64_MAX, take_record, trial), 0);
	store_free(store);
	free(ways);
}

static int compare_records(const void *a, const void *b)
{
	const struct record *x = *(const struct record *const *)a,
			    *y = *(const struct record *const *)b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Records, with times by a clock of that grain: several of them are at one time then. Whose call
 * they are tells those apart. */
static struct record **make_coarse(const struct recorded *r, uint64_t grain)
{
	struct record **records = calloc(r->n, sizeof(records[0]));
	size_t size = 0;
	uint8_t *memory;

	for (size_t i = 0; i < r->n; i++)
		size += store_record_size(r->records[i]);
	memory = malloc(size);
	for (size_t i = 0; i < r->n; i++) {
		records[i] = memcpy(memory, r->records[i], store_record_size(r->records[i]));
		memory += store_record_size(r->records[i]);
		records[i]->time -= records[i]->time % grain;
		records[i]->time = MAX(records[i]->time, r->start_ns);
	}
	qsort(records, r->n, sizeof(records[0]), compare_records);
	return records;
}

TEST(the_choice_of_rings_changes_nothing)
{
	static const uint64_t grains[] = { 1, 1000, 100000 };

	for (size_t i = 0; i < N_TRUTHS; i++)
		for (unsigned g = 0; g < ARRAY_SIZE(grains); g++) {
			const struct truth *truth = truth_get(i);
			struct record **records = make_coarse(&truth->recorded, grains[g]);
			struct record *memory = records[0];
			struct delivery in_order = { .start_ns = truth->recorded.start_ns,
						     .stop_ns = truth->recorded.stop_ns,
						     .records = (const struct record **)records,
						     .n = truth->recorded.n };
			struct timeline *t = recorded_correlate(&truth->recorded, &in_order);

			for (size_t k = 0; k < truth->recorded.n; k++)
				memory = MIN(memory, records[k]);
			for (unsigned seed = 0; seed < SEEDS / 8; seed++) {
				struct trial trial = trial_new(truth, "shuffled rings", seed);

				deliver(&trial, (const struct record *const *)records);
				CHECK_EQ(trial.d.n, truth->recorded.n);
				trial_make(&trial);
				if (!t || !is_same_timeline(trial.t, t))
					wrong(&trial,
					      "the result is another one, at a grain of %llu ns",
					      (unsigned long long)grains[g]);
				check_phases(&trial);
				for (size_t k = 0; k < trial.d.n; k++)
					free((void *)trial.d.records[k]);
				trial_done(&trial);
			}
			timeline_free(t);
			free(memory);
			free(records);
		}
}

CHECK_MAIN()
