/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/startup.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/macro.h"

struct startup_entry {
	const struct pack *pack;
	const struct probe_row *row;
	const struct record *record;
};

/* The end of a text, after "..." if it was truncated. */
static void copy_text(char *ret, size_t size, const struct record *record)
{
	const struct record_text *r = (const void *)record;
	size_t n;

	*ret = 0;
	if (record->kind != RECORD_TEXT)
		return;
	n = strnlen(r->text, MIN(r->size, (uint32_t)RECORD_TEXT_SIZE));
	snprintf(ret, size, "%s%.*s", r->size > RECORD_TEXT_SIZE ? "..." : "", (int)n, r->text);
	for (char *p = ret; *p; p++)
		if ((unsigned char)*p < ' ')
			*p = '?';
}

static bool is_open(const struct startup_load *l)
{
	return !l->end_ns && !l->failed && !l->interrupted;
}

/* The last load of the thread; open: that has no end yet. */
static struct startup_load *find_load(struct startup *s, uint32_t tid, bool open)
{
	for (unsigned i = s->n_loads; i > 0; i--) {
		struct startup_load *l = &s->loads[i - 1];

		if (l->tid == tid && (!open || is_open(l)))
			return l;
	}
	return NULL;
}

/* Room for one more: the oldest that has ended gives way. */
static bool make_room(struct startup *s)
{
	for (unsigned i = 0; i < s->n_loads && s->n_loads == STARTUP_LOADS_MAX; i++)
		if (!is_open(&s->loads[i])) {
			memmove(&s->loads[i], &s->loads[i + 1],
				(s->n_loads - i - 1) * sizeof(s->loads[0]));
			s->n_loads--;
			s->n_loads_left_out++;
		}
	return s->n_loads < STARTUP_LOADS_MAX;
}

static void begin_load(struct startup *s, uint32_t tid, uint64_t time)
{
	struct startup_load *l = find_load(s, tid, true);

	if (l)
		l->failed = true;
	if (make_room(s)) {
		s->loads[s->n_loads++] = (struct startup_load){ .tid = tid, .begin_ns = time };
	} else {
		s->n_loads_left_out++;
		s->n_unkept++;
	}
}

/* A load of whose thread the end is seen first had begun before the process was watched. */
static struct startup_load *begin_unseen(struct startup *s, uint32_t tid)
{
	struct startup_load *l;

	if (!s->watched_ns || find_load(s, tid, false))
		return NULL;
	begin_load(s, tid, s->watched_ns);
	l = find_load(s, tid, true);
	if (l)
		l->begin_is_bound = true;
	return l;
}

static void end_load(struct startup *s, uint32_t tid, uint64_t time)
{
	struct startup_load *l = find_load(s, tid, true);

	/* The thread's load was left out. */
	if (!l && s->n_unkept) {
		s->n_unkept--;
		return;
	}
	l = l ?: begin_unseen(s, tid);
	if (l)
		l->end_ns = time;
}

/* Some runtimes report the directory before the load, some after it. */
static void set_path(struct startup *s, const struct record *record)
{
	struct startup_load *l =
		find_load(s, record->tid, true) ?: find_load(s, record->tid, false);

	if (l && !*l->path)
		copy_text(l->path, sizeof(l->path), record);
}

/* Whether variables in files with this prefix belong to the model in the directory; both texts may
 * have lost their beginning. */
static bool is_in(const char *prefix, const char *folder, const char *directory)
{
	const char *end = NULL;
	size_t n, size = strlen(directory);

	for (const char *at = prefix; (at = strstr(at, folder)); at++)
		end = at;
	if (!end || !*directory)
		return false;
	n = (size_t)(end - prefix);
	if (strncmp(prefix, "...", 3))
		return n == size && !memcmp(prefix, directory, n);
	n -= 3;
	return n <= size && !memcmp(prefix + 3, directory + size - n, n);
}

/* The load that variables are read for: that of the thread, the one with their directory, or the
 * only one whose directory is unknown. */
static struct startup_load *load_of_reader(struct startup *s, const struct startup_entry *e)
{
	const struct record *record = e->record;
	struct startup_load *own = find_load(s, record->tid, true), *nameless = NULL;
	char prefix[STARTUP_PATH_MAX];
	unsigned n_nameless = 0;

	if (own)
		return own;
	copy_text(prefix, sizeof(prefix), record);
	for (unsigned i = 0; i < s->n_loads; i++) {
		struct startup_load *l = &s->loads[i];

		if (!is_open(l))
			continue;
		if (e->pack->weights_folder && is_in(prefix, e->pack->weights_folder, l->path))
			return l;
		nameless = *l->path ? nameless : l;
		n_nameless += !*l->path;
	}
	return n_nameless == 1 && !s->n_unkept ? nameless : NULL;
}

static void begin_restore(struct startup *s, const struct startup_entry *e)
{
	const struct record *record = e->record;
	struct startup_load *l = load_of_reader(s, e);

	if (!l)
		return;
	if (!l->restore_begin_ns)
		l->restore_begin_ns = record->time;
	l->reader = ((const struct record_probe *)record)->tag;
}

static void end_restore(struct startup *s, const struct record *record)
{
	uint32_t reader = ((const struct record_probe *)record)->tag;

	for (unsigned i = s->n_loads; reader && i > 0; i--)
		if (s->loads[i - 1].reader == reader) {
			s->loads[i - 1].restore_end_ns = record->time;
			s->loads[i - 1].reader = 0;
			return;
		}
}

/* Runs of a thread that has loaded a model warm that model up; runs of other threads are for a
 * request, unless requests are known from handlers. */
static void on_run(struct startup *s, uint32_t tid, uint64_t time, bool begins)
{
	struct startup_load *l = find_load(s, tid, false);
	bool any = false;

	if (s->first_request_ns || s->n_unkept || find_load(s, tid, true))
		return;
	for (unsigned i = 0; i < s->n_loads; i++)
		any |= s->loads[i].end_ns != 0;
	if (!any)
		return;
	if (!l || !l->end_ns) {
		if (begins && !s->has_handlers)
			s->first_request_ns = time;
		return;
	}
	if (begins && !l->warmup_begin_ns)
		l->warmup_begin_ns = time;
	if (l->warmup_begin_ns)
		l->warmup_end_ns = time;
	l->warmup_runs += begins;
}

static void begin_call(struct startup *s, const struct startup_entry *e)
{
	s->calls[s->n_calls++ % STARTUP_CALLS_MAX] = (struct startup_call){
		.tid = e->record->tid,
		.pack = e->pack,
		.group = e->row->group,
		.begin_ns = e->record->time,
	};
}

/* The thread's latest call of the group; NULL: none is remembered. */
static const struct startup_call *find_call(const struct startup *s, const struct startup_entry *e)
{
	for (unsigned i = 0; i < MIN(s->n_calls, (unsigned)STARTUP_CALLS_MAX); i++) {
		const struct startup_call *call =
			&s->calls[(s->n_calls - 1 - i) % STARTUP_CALLS_MAX];

		if (call->tid == e->record->tid && call->pack == e->pack &&
		    call->group == e->row->group)
			return call;
	}
	return NULL;
}

/* A call that only asks whether the server is ready has neither an end that names a model nor one
 * of its own group. */
static void end_call(struct startup *s, const struct startup_entry *e)
{
	const struct startup_call *call = find_call(s, e);

	if (!s->first_request_ns && (call || e->record->kind == RECORD_TEXT))
		s->first_request_ns = call ? call->begin_ns : e->record->time;
}

static void feed_load(struct startup *s, const struct startup_entry *e)
{
	switch (e->row->verb) {
	case VERB_OPEN:
		begin_load(s, e->record->tid, e->record->time);
		break;
	case VERB_POINT:
		set_path(s, e->record);
		break;
	case VERB_CLOSE:
		end_load(s, e->record->tid, e->record->time);
		break;
	default:
		break;
	}
}

void startup_feed(struct startup *s, const struct pack *pack, const struct probe_row *row,
		  const struct record *record)
{
	const struct startup_entry e = { .pack = pack, .row = row, .record = record };
	bool opens = row->verb == VERB_OPEN;

	switch (row->work) {
	case WORK_RUNTIME:
		if (!s->runtime_ns)
			s->runtime_ns = record->time;
		break;
	case WORK_LOAD:
		feed_load(s, &e);
		break;
	case WORK_WEIGHTS:
		if (opens)
			begin_restore(s, &e);
		else
			end_restore(s, record);
		break;
	case WORK_RUN:
		if (opens || row->verb == VERB_CLOSE)
			on_run(s, record->tid, record->time, opens);
		break;
	case WORK_REQUEST:
		if (opens)
			begin_call(s, &e);
		else
			end_call(s, &e);
		break;
	default:
		break;
	}
}

void startup_interrupt(struct startup *s)
{
	for (unsigned i = 0; i < s->n_loads; i++)
		s->loads[i].interrupted |= is_open(&s->loads[i]);
	s->n_unkept = 0;
}

bool startup_is_over(const struct startup *s)
{
	return s->first_request_ns != 0;
}

/* The earlier of two times, either of which may be unknown (0). */
static uint64_t earlier(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

static int compare_phases(const void *a, const void *b)
{
	const struct startup_phase *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->kind > y->kind) - (x->kind < y->kind);
}

static struct startup_phase *add(struct startup_track *t, enum startup_phase_kind kind,
				 uint64_t start, uint64_t end)
{
	/* Times of threads and processes have a precision of 10 ms: no phase ends before it begins.
	 */
	t->phases[t->n] = (struct startup_phase){ .kind = kind,
						  .start_ns = start,
						  .end_ns = end ? MAX(start, end) : 0 };
	return &t->phases[t->n++];
}

static struct startup_phase *add_of(struct startup_track *t, enum startup_phase_kind kind,
				    const struct startup_load *l, uint64_t start, uint64_t end)
{
	struct startup_phase *phase = add(t, kind, start, end);

	memcpy(phase->path, l->path, sizeof(phase->path));
	return phase;
}

static void add_load(struct startup_track *t, const struct startup_load *l, bool is_watched)
{
	struct startup_phase *load = add_of(t, STARTUP_LOAD, l, l->begin_ns, l->end_ns);

	load->failed = l->failed;
	load->goes_on = is_watched && is_open(l);
	load->start_is_bound = l->begin_is_bound;
	if (l->restore_begin_ns)
		add_of(t, STARTUP_RESTORE, l, l->restore_begin_ns, l->restore_end_ns)->goes_on =
			load->goes_on && !l->restore_end_ns;
	if (l->warmup_begin_ns)
		add_of(t, STARTUP_WARMUP, l, l->warmup_begin_ns, l->warmup_end_ns)->runs =
			l->warmup_runs;
}

void startup_phases(const struct startup *s, struct startup_track *ret)
{
	uint64_t begun = s->executed_ns ?: s->started_ns, first_load = 0, ready = 0,
		 runtime = s->runtime_ns ?: s->pools_ns;
	bool is_watched = s->watched_ns && !s->unwatched_ns, next_is_bound;
	struct startup_phase *phase;
	uint64_t next;

	ret->n = 0;
	for (unsigned i = 0; i < s->n_loads; i++) {
		first_load = earlier(first_load, s->loads[i].begin_ns);
		/* The first request did not wait for a model that was loaded later. */
		if (!s->first_request_ns || s->loads[i].end_ns <= s->first_request_ns)
			ready = MAX(ready, MAX(s->loads[i].end_ns, s->loads[i].warmup_end_ns));
		add_load(ret, &s->loads[i], is_watched);
	}
	next = earlier(runtime, first_load);
	next_is_bound = next && next == s->pools_ns && !s->runtime_ns;
	if (begun) {
		phase = add(ret, STARTUP_START, begun, s->first_mapped_ns ?: next);
		phase->start_is_bound = !s->executed_ns;
		phase->end_is_bound = !s->first_mapped_ns && next_is_bound;
	}
	if (s->first_mapped_ns)
		add(ret, STARTUP_LIBRARIES, s->first_mapped_ns, next)->end_is_bound = next_is_bound;
	if (runtime)
		add(ret, STARTUP_RUNTIME, runtime,
		    first_load > runtime ? first_load
		    : first_load         ? runtime
					 : 0)
			->start_is_bound = !s->runtime_ns;
	if (ready)
		add(ret, STARTUP_WAIT, ready, s->first_request_ns)->goes_on =
			is_watched && !s->first_request_ns;
	if (s->first_request_ns)
		add(ret, STARTUP_SERVING, s->first_request_ns, 0)->goes_on = true;
	qsort(ret->phases, ret->n, sizeof(ret->phases[0]), compare_phases);
}
