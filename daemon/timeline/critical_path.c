/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/timeline/critical_path.h"

#include "lib/base/macro.h"

/* Limits what a path may cost: each step takes a few searches. */
#define STEPS_MAX (8u * PATH_SEGMENTS_MAX)
/* Wake-ups followed at the same time: more of them are a circle. */
#define JUMPS_MAX 16
/* Spans that enclose one another; outer ones are ignored. */
#define NESTING_MAX 256
/* How often a thread may be preempted between a wake-up and the work that it was woken for. */
#define PREEMPTIONS_MAX 64
/* A piece ends with the last thing seen of it: what its thread does within this time afterwards,
 * without a pause, belongs to it. */
#define PIECE_SLACK_NS 100000

void path_begin(struct path *p, const struct span_index *index, struct segment *segments,
		uint32_t max, uint64_t end_ns)
{
	*p = (struct path){ .index = index,
			    .segments = segments,
			    .max = MIN(max, (uint32_t)PATH_SEGMENTS_MAX),
			    .at = end_ns };
}

static bool continues(const struct segment *s, const struct segment *before)
{
	return s->phase == before->phase && s->activity == before->activity &&
	       s->thread == before->thread && s->name == before->name && s->by == before->by;
}

/* Adds a segment from that time to the cursor; start_ns and end_ns need not be set. */
static void add(struct path *p, uint64_t from, struct segment s)
{
	if (from >= p->at || p->full)
		return;
	s.start_ns = from;
	s.end_ns = p->at;
	if (p->n && continues(&p->segments[p->n - 1], &s)) {
		p->segments[p->n - 1].start_ns = from;
	} else if (p->n + 1 >= p->max) {
		p->full = true; /* the last segment is for the rest */
		return;
	} else {
		p->segments[p->n++] = s;
	}
	p->at = from;
	p->jumps = 0;
}

static struct segment waiting(enum phase phase, uint32_t thread)
{
	return (struct segment){ .thread = thread,
				 .name = TEXT_NONE,
				 .by = -1,
				 .phase = (uint8_t)phase,
				 .activity = ACTIVITY_WAITING };
}

void path_end(struct path *p, uint64_t start_ns)
{
	struct segment rest = { .start_ns = start_ns,
				.end_ns = p->at,
				.thread = THREAD_NONE,
				.name = TEXT_NONE,
				.by = -1,
				.phase = PHASE_UNKNOWN,
				.activity = ACTIVITY_UNKNOWN };

	if (p->at <= start_ns)
		return;
	p->segments[p->n++] = rest;
	p->at = start_ns;
}

static bool take_step(struct path *p)
{
	if (p->steps++ >= STEPS_MAX)
		p->full = true;
	return !p->full;
}

/* The operation that the thread ran just before the cursor, or none, and since when (not before
 * from). */
static uint32_t op_at(const struct path *p, uint32_t thread, uint64_t *from)
{
	uint32_t work = span_index_work_before(p->index, thread, p->at);
	bool enclosed = false;

	for (unsigned int i = 0; work != INDEX_NONE && i < NESTING_MAX;
	     work = span_index_work_above(p->index, work), i++) {
		const struct span *s = span_index_work(p->index, work);

		if (s->end_ns < p->at) {
			if (!enclosed)
				*from = MAX(*from, s->end_ns);
			continue;
		}
		if (!enclosed)
			*from = MAX(*from, s->start_ns);
		enclosed = true;
		if (s->kind == SPAN_OP)
			return s->name;
	}
	return TEXT_NONE;
}

static enum phase phase_of(enum phase phase, enum activity activity)
{
	static const uint8_t execution[] = { [ACTIVITY_UNKNOWN] = PHASE_EXECUTE,
					     [ACTIVITY_RUNNING] = PHASE_EXECUTE_RUNNING,
					     [ACTIVITY_RUNNABLE] = PHASE_EXECUTE_RUNNABLE,
					     [ACTIVITY_BLOCKED] = PHASE_EXECUTE_BLOCKED,
					     [ACTIVITY_THROTTLED] = PHASE_EXECUTE_THROTTLED };

	return phase == PHASE_EXECUTE ? execution[activity] : phase;
}

static const struct span *off_before(const struct path *p, uint32_t thread)
{
	return span_index_off_before(p->index, thread, p->at);
}

/* What the thread waited for while it was off the CPU. */
static void describe_wait(const struct path *p, const struct span *off, struct segment *s)
{
	const struct timeline *t = span_index_timeline(p->index);

	if (off->kind == SPAN_THROTTLED) {
		s->activity = ACTIVITY_THROTTLED;
		if (off->quota >= 0 && off->quota < t->n_quotas)
			s->name = t->quotas[off->quota].name;
		return;
	}
	s->activity = off->kind == SPAN_BLOCKED ? ACTIVITY_BLOCKED : ACTIVITY_RUNNABLE;
	if (off->kind == SPAN_BLOCKED)
		s->name = off->name;
	if (off->waker >= 0 && off->waker < t->n_threads)
		s->by = (int32_t)off->waker;
}

/* Whether no thread works on the request in this phase. */
static bool is_wait(enum phase phase)
{
	return phase == PHASE_ACCEPT_QUEUE || phase == PHASE_QUEUE || phase == PHASE_SEND_HELD;
}

/*
 * Adds what the thread did up to the cursor: one activity, not before from; off: its last off-CPU
 * span before the cursor. For PHASE_EXECUTE the activity determines the phase.
 */
static void add_activity(struct path *p, enum phase phase, uint32_t thread, uint64_t from,
			 const struct span *off)
{
	struct segment s = { .thread = thread, .name = TEXT_NONE, .by = -1 };
	uint64_t known = span_index_known_until(p->index);

	if (p->at > known || thread == THREAD_NONE) {
		s.activity = is_wait(phase) ? ACTIVITY_WAITING : ACTIVITY_UNKNOWN;
		if (thread != THREAD_NONE)
			from = MAX(from, known);
	} else if (!off || off->end_ns < p->at) {
		s.activity = phase == PHASE_QUEUE ? ACTIVITY_WAITING : ACTIVITY_RUNNING;
		if (off)
			from = MAX(from, off->end_ns);
		if (phase == PHASE_EXECUTE)
			s.name = op_at(p, thread, &from);
	} else {
		from = MAX(from, off->start_ns);
		describe_wait(p, off, &s);
	}
	s.phase = (uint8_t)phase_of(phase, s.activity);
	add(p, from, s);
}

void path_fill(struct path *p, enum phase phase, uint32_t thread, uint64_t from_ns)
{
	while (p->at > from_ns && take_step(p))
		add_activity(p, phase, thread, from_ns, off_before(p, thread));
}

/* Whether the thread stayed on its CPU between the two times. */
static bool stayed_on_cpu(const struct path *p, uint32_t thread, uint64_t from, uint64_t to)
{
	const struct span *off = span_index_off_before(p->index, thread, to);

	return !off || off->end_ns <= from;
}

static struct path_work *top(struct path *p)
{
	return &p->work[p->depth - 1];
}

static bool push_batch(struct path *p, uint32_t batch)
{
	const struct timeline *t = span_index_timeline(p->index);
	const struct batch *b = &t->batches[batch];
	const struct batch_task *task = span_index_task(p->index, top(p)->root, batch);

	if (p->depth == PATH_DEPTH_MAX)
		return false;
	p->work[p->depth] =
		(struct path_work){ .start_ns = MAX(b->start_ns, top(p)->start_ns),
				    .queued_ns = task ? task->queued_ns : 0,
				    .root = span_index_root_of_batch(p->index, batch),
				    .thread = b->thread < t->n_threads ? b->thread : THREAD_NONE };
	p->depth++;
	return true;
}

/* Continues on that thread, if at the cursor it was inside a piece of the work that the path is in.
 */
static bool enter_piece(struct path *p, uint32_t thread)
{
	uint32_t work = span_index_work_before(p->index, thread, p->at), root = top(p)->root,
		 batch = INDEX_NONE;
	uint64_t start = UINT64_MAX, batch_start = 0;

	for (unsigned int i = 0; work != INDEX_NONE && i < NESTING_MAX;
	     work = span_index_work_above(p->index, work), i++) {
		const struct span *s = span_index_work(p->index, work);
		uint32_t of;

		if (s->kind == SPAN_OP || s->kind == SPAN_HANDLER)
			continue;
		if (s->end_ns < p->at && (p->at - s->end_ns > PIECE_SLACK_NS ||
					  !stayed_on_cpu(p, thread, s->end_ns, p->at)))
			continue;
		of = span_index_root(p->index, s->context);
		if (of == INDEX_NONE)
			continue;
		if (of == root) {
			start = s->start_ns;
		} else if (span_index_batch_of_root(p->index, of) != INDEX_NONE &&
			   span_index_task(p->index, root,
					   span_index_batch_of_root(p->index, of))) {
			batch = span_index_batch_of_root(p->index, of);
			batch_start = s->start_ns;
		}
	}
	/* What a batch's thread does for a run itself is also inside the batch, but more specific.
	 */
	if (start == UINT64_MAX && batch != INDEX_NONE && push_batch(p, batch))
		start = batch_start;
	if (start == UINT64_MAX)
		return false;
	p->thread = thread;
	p->piece_start = start;
	return true;
}

/* The last time before the cursor when the thread was throttled, NULL: none after from. */
static const struct span *throttled_before(const struct path *p, uint64_t from)
{
	uint64_t at = p->at;

	for (unsigned int i = 0; i < PREEMPTIONS_MAX; i++) {
		const struct span *off = span_index_off_before(p->index, p->thread, at);

		if (!off || off->end_ns <= from)
			break;
		if (off->kind == SPAN_THROTTLED)
			return off;
		at = off->start_ns;
	}
	return NULL;
}

/* From then on to the cursor the work waited for the thread, which did other work, or was
 * throttled. */
static void add_wait(struct path *p, uint64_t from)
{
	while (p->at > from && take_step(p)) {
		const struct span *off = throttled_before(p, from);

		if (off && off->end_ns >= p->at)
			add_activity(p, PHASE_EXECUTE, p->thread, from, off);
		else
			add(p, off ? off->end_ns : from, waiting(PHASE_QUEUE, p->thread));
	}
}

/* Goes to the latest known activity of the work before the cursor, on any thread; since then it
 * waited to be taken up. */
static void go_to_latest(struct path *p)
{
	const struct timeline *t = span_index_timeline(p->index);
	const struct path_work *work = top(p);
	const struct span *piece = span_index_latest_piece(p->index, work->root, p->at);
	const struct span *off = off_before(p, work->thread);
	uint32_t batch = span_index_latest_batch(p->index, work->root, p->at);
	uint64_t piece_end = piece ? MIN(piece->end_ns, p->at) : 0;
	uint64_t batch_end = batch != INDEX_NONE ? MIN(t->batches[batch].end_ns, p->at) : 0;
	/* The work's own thread works for it whenever it does not wait. */
	uint64_t own =
		off && off->kind == SPAN_BLOCKED && off->end_ns >= p->at ? off->start_ns : p->at;
	uint64_t moment = MAX(MAX(piece_end, batch_end), MAX(own, work->start_ns));
	bool on_piece = piece && piece_end == moment,
	     on_batch = !on_piece && batch != INDEX_NONE && batch_end == moment;

	add_wait(p, moment);
	if (p->at > moment)
		return;
	if (on_batch && push_batch(p, batch)) {
		p->thread = top(p)->thread;
		p->piece_start = top(p)->start_ns;
	} else if (!enter_piece(p, on_piece ? piece->thread : work->thread)) {
		p->thread = work->thread;
		p->piece_start = work->start_ns;
	}
}

/* The wake-up that led to what the thread does at the cursor, NULL: none, or it did other work in
 * between. */
static const struct span *wake_before(const struct path *p)
{
	const struct span *off = NULL;
	uint64_t at = p->at;
	uint32_t work = span_index_work_before(p->index, p->thread, at);

	for (unsigned int i = 0; i < PREEMPTIONS_MAX; i++, at = off->start_ns) {
		off = span_index_off_before(p->index, p->thread, at);
		if (!off || off->kind == SPAN_BLOCKED)
			break;
	}
	if (!off || off->kind != SPAN_BLOCKED || off->end_ns > at || off->waker < 0 ||
	    off->waker >= UINT32_MAX)
		return NULL;
	for (unsigned int i = 0; work != INDEX_NONE && i < NESTING_MAX;
	     work = span_index_work_above(p->index, work), i++)
		if (span_index_work(p->index, work)->end_ns > off->end_ns)
			return NULL;
	return off;
}

/* The path has come to the start of a piece: it continues on the thread that made the piece ready.
 */
static void leave_piece(struct path *p)
{
	uint32_t thread = p->thread;
	const struct span *wake;

	if (enter_piece(p, thread))
		return;
	wake = wake_before(p);
	if (wake && wake->end_ns >= top(p)->start_ns) {
		struct path there = *p;

		there.at = wake->end_ns;
		if (enter_piece(&there, (uint32_t)wake->waker)) {
			while (p->at > wake->end_ns && take_step(p))
				add_activity(p, PHASE_EXECUTE, thread, wake->end_ns,
					     off_before(p, thread));
			if (!p->full)
				enter_piece(p, (uint32_t)wake->waker);
			return;
		}
	}
	go_to_latest(p);
}

/* The path has come to the start of a run or of a batch. */
static void leave_work(struct path *p)
{
	const struct path_work left = *top(p);
	uint64_t from = left.queued_ns;

	if (--p->depth == 0)
		return;
	if (!from) {
		const struct span *piece = span_index_latest_piece(p->index, top(p)->root, p->at);

		from = piece ? MIN(piece->end_ns, p->at) : p->at;
	}
	p->thread = left.thread;
	add(p, MAX(from, top(p)->start_ns), waiting(PHASE_BATCH, left.thread));
	if (p->at > top(p)->start_ns && !p->full)
		go_to_latest(p);
}

/* Whether the thread was, at that time, inside a part of the work that it did itself. */
static bool works_itself(const struct path *p, uint64_t at)
{
	uint32_t work = span_index_work_before(p->index, p->thread, at);

	for (unsigned int i = 0; work != INDEX_NONE && i < NESTING_MAX;
	     work = span_index_work_above(p->index, work), i++) {
		const struct span *s = span_index_work(p->index, work);

		if (s->end_ns > at &&
		    (s->kind == SPAN_EXECUTOR || s->kind == SPAN_DONE || s->kind == SPAN_OP))
			return true;
	}
	return false;
}

/* When the piece's thread had finished it, at that time at the latest: a piece whose end was not
 * seen may have ended when its thread began to wait. */
static uint64_t piece_done(const struct path *p, const struct span *piece, uint64_t at)
{
	uint64_t end = MIN(piece->end_ns, at);
	const struct span *off = span_index_off_before(p->index, piece->thread, end);

	if (piece->kind != SPAN_DONE && !(piece->flags & SPAN_END_NOT_SEEN))
		return end;
	return off && off->kind == SPAN_BLOCKED && off->end_ns >= end &&
			       off->start_ns > piece->start_ns
		       ? off->start_ns
		       : end;
}

/* Whether a child has answered: it wakes the thread that waits for it, and its piece goes on until
 * that has taken the answer. */
static bool has_answered(const struct span *piece, const struct span *wait)
{
	return piece && piece->flags & SPAN_CHILD && wait && wait->kind == SPAN_BLOCKED &&
	       wait->waker == piece->thread && wait->end_ns > piece->start_ns;
}

/*
 * The work's own thread only waited for its pieces on other threads, and they ended while it waited
 * for a CPU: the path waits for the CPU since then, and for the pieces before. False: this is not
 * the case.
 */
static bool follow_others(struct path *p, const struct span *off)
{
	const struct timeline *t = span_index_timeline(p->index);
	uint32_t root = top(p)->root, batch = span_index_latest_batch(p->index, root, p->at);
	const struct span *piece = span_index_latest_piece(p->index, root, p->at);
	const struct span *before = span_index_off_before(p->index, p->thread, off->start_ns);
	uint64_t piece_end = piece ? piece_done(p, piece, p->at) : 0;
	uint64_t batch_end = batch != INDEX_NONE ? MIN(t->batches[batch].end_ns, p->at) : 0;
	uint64_t moment = MAX(piece_end, batch_end);

	/* It waited, and was woken. */
	if ((before && before->kind == SPAN_BLOCKED && before->end_ns >= off->start_ns) ||
	    has_answered(piece, before))
		return false;
	if (p->thread != top(p)->thread || moment <= MAX(off->start_ns, top(p)->start_ns) ||
	    works_itself(p, off->start_ns))
		return false;
	if (moment == piece_end && piece->thread == p->thread)
		return false;
	while (p->at > moment && take_step(p))
		add_activity(p, PHASE_EXECUTE, p->thread, moment, off);
	if (p->full)
		return true;
	if (moment == piece_end)
		return enter_piece(p, piece->thread);
	if (!push_batch(p, batch))
		return false;
	p->thread = top(p)->thread;
	p->piece_start = top(p)->start_ns;
	return true;
}

/* One step back: one segment, or one change of the thread. */
static void step(struct path *p)
{
	uint64_t from = MAX(p->piece_start, top(p)->start_ns);
	const struct span *off;

	if (p->at <= top(p)->start_ns) {
		leave_work(p);
		return;
	}
	if (p->at <= p->piece_start) {
		leave_piece(p);
		return;
	}
	off = off_before(p, p->thread);
	if (off && off->kind == SPAN_BLOCKED && off->end_ns == p->at && off->waker >= 0 &&
	    off->waker < UINT32_MAX && p->jumps++ < JUMPS_MAX &&
	    enter_piece(p, (uint32_t)off->waker))
		return;
	if (off && off->kind != SPAN_BLOCKED && off->end_ns >= p->at && p->jumps < JUMPS_MAX &&
	    follow_others(p, off)) {
		p->jumps++;
		return;
	}
	add_activity(p, PHASE_EXECUTE, p->thread, from, off);
}

/* Without knowledge of what threads did, only batches are distinguished. */
static void execute_unseen(struct path *p, uint32_t root, uint32_t thread, uint64_t from)
{
	const struct timeline *t = span_index_timeline(p->index);

	while (p->at > from && take_step(p)) {
		uint32_t batch = span_index_latest_batch(p->index, root, p->at);
		const struct batch_task *task;
		const struct batch *b;
		uint32_t batch_thread;

		if (batch == INDEX_NONE) {
			path_fill(p, PHASE_EXECUTE, thread, from);
			break;
		}
		b = &t->batches[batch];
		batch_thread = b->thread < t->n_threads ? b->thread : THREAD_NONE;
		task = span_index_task(p->index, root, batch);
		path_fill(p, PHASE_EXECUTE, thread, MAX(MIN(b->end_ns, p->at), from));
		path_fill(p, PHASE_EXECUTE, batch_thread, MAX(b->start_ns, from));
		if (task && task->queued_ns && !p->full)
			add(p, MAX(task->queued_ns, from), waiting(PHASE_BATCH, batch_thread));
	}
}

uint32_t path_batch_after(const struct span_index *index, const struct span *run,
			  uint64_t before_ns)
{
	return run->flags & SPAN_HANDED_OVER
		       ? span_index_latest_batch(index, span_index_root(index, run->context),
						 before_ns)
		       : INDEX_NONE;
}

void path_execute(struct path *p, const struct span *run, uint64_t from_ns)
{
	uint32_t root = span_index_root(p->index, run->context);
	uint64_t known = span_index_known_until(p->index);
	uint32_t batch;

	if (p->at > known)
		execute_unseen(p, root, run->thread, MAX(from_ns, known));
	p->work[0] = (struct path_work){ .start_ns = from_ns, .root = root, .thread = run->thread };
	p->depth = 1;
	p->thread = run->thread;
	p->piece_start = from_ns;
	batch = path_batch_after(p->index, run, p->at);
	if (batch != INDEX_NONE && push_batch(p, batch)) {
		p->thread = top(p)->thread;
		p->piece_start = top(p)->start_ns;
	}
	while (p->depth && p->at > from_ns && take_step(p))
		step(p);
}
