/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/session.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "daemon/capture/budget/hits.h"
#include "daemon/capture/drain.h"
#include "daemon/capture/name_lists.h"
#include "daemon/capture/session_warnings.h"
#include "daemon/capture/sites.h"
#include "daemon/correlate/correlate.h"
#include "daemon/correlate/runtime/layout.h"
#include "lib/base/loop.h"
#include "lib/base/macro.h"
#include "lib/proc/cpu_time.h"
#include "lib/proc/pidfd.h"

/* By then every program sees the window, unless this thread is delayed. */
#define OPEN_AFTER_NS 100000
/* Of a millisecond each, until the last records are complete. */
#define FINISH_ROUNDS 200

struct session_target {
	const struct prepared *prepared;
	int pidfd;
	struct layouts layouts;
	/* It was refused, or is a target again as another program. */
	bool left_out;
	uint64_t added_ns;
	/* CPU time: when it was added, and the last known value. */
	uint64_t cpu_base_ns, cpu_ns;
};

struct session {
	struct session_options options;
	uint32_t id;                  /* the broker's id of the capture */
	unsigned generation;          /* of the broker */
	bool open;                    /* it exists at the broker */
	bool opened;                  /* the window was opened */
	uint64_t start_ns;            /* of the window */
	unsigned refused_kinds;       /* that the kernel refuses; a bit each */
	uint32_t skipped;             /* as drain_counts */
	unsigned crowded[KIND_COUNT]; /* of these, probes that are too many; 0: not that */
	unsigned n_targets;
	struct session_target targets[RECORD_MAX_TARGETS];
	struct record_control *control;
	struct drain *drain;
	struct hits hits;
	struct session_warnings warnings;
};

const struct session_warnings *session_warnings(const struct session *s)
{
	return &s->warnings;
}

static int on_record(const struct record *record, void *data);

/* The broker has ended, and everything that was attached with it: a later one knows nothing of
 * this capture. */
static bool is_orphaned(const struct session *s)
{
	return proxy_generation(s->options.proxy) != s->generation;
}

static int map_everything(struct session *s, const int *fds, unsigned n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (n < 3)
		return -EBADMSG;
	s->control = mmap(NULL, (sizeof(*s->control) + page - 1) & ~(page - 1),
			  PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	if (s->control == MAP_FAILED) {
		s->control = NULL;
		return -errno;
	}
	return drain_new(fds[1], fds + 2, n - 2, &s->options.sinks, on_record, s, s->options.proxy,
			 &s->drain);
}

static const char *describe_refused(const struct session *s, enum probe_kind kind, char *text,
				    size_t size)
{
	if (s->crowded[kind])
		sites_explain(kind, s->crowded[kind], sites_room(s->options.forecast), text, size);
	else
		snprintf(
			text, size,
			"Not captured: %s. The kernel refused a BPF program or a probe: the daemon's log has the reason.",
			probe_kind_name(kind));
	return text;
}

/* The kernel refuses these kinds: an open window ends for them now, a later one never begins for
 * them. */
static int leave_out(struct session *s, unsigned kinds)
{
	char text[160];
	int r = 0;

	for (enum probe_kind kind = 0; kind < KIND_COUNT && r >= 0; kind++) {
		if (!(kinds & ~s->refused_kinds & 1u << kind))
			continue;
		s->refused_kinds |= 1u << kind;
		warnings_restate(&s->warnings, describe_refused(s, kind, text, sizeof(text)));
		if (s->opened)
			r = sinks_shed(&s->options.sinks, kind, loop_now(), text);
	}
	return r;
}

static int open_capture(struct session *s, char *text, size_t text_size)
{
	struct broker_message m = { .type = BROKER_CAPTURE,
				    .id = s->options.client,
				    .index = s->options.is_shared,
				    .kinds = s->options.kinds,
				    .kind = s->options.sampled_kinds,
				    .count = s->options.detail.stacks_hz };
	int fds[BROKER_MAX_FDS], r;
	unsigned n = 0;

	r = proxy_call(s->options.proxy, &m, fds, &n);
	if (r < 0) {
		snprintf(text, text_size, "%s", m.text);
		return r;
	}
	s->id = m.id;
	s->open = true;
	if (m.index)
		warnings_of_calls(&s->warnings, s->options.forecast);
	r = leave_out(s, s->options.kinds & ~m.kinds);
	if (r >= 0)
		r = map_everything(s, fds, n);
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
	return r;
}

int session_new(const struct session_options *options, struct session **ret, char *ret_text,
		size_t text_size)
{
	struct session *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->options = *options;
	s->hits.forecast = options->forecast;
	s->generation = proxy_generation(options->proxy);
	r = open_capture(s, ret_text, text_size);
	if (r < 0) {
		session_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

static int call_for_kind(struct session *s, uint32_t type, enum probe_kind kind)
{
	struct broker_message m = { .type = type, .id = s->id, .kind = kind };

	return proxy_call(s->options.proxy, &m, NULL, NULL);
}

/* A target with more probes than a capture has room for goes without the kinds that have most. */
static int make_room(struct session *s, const struct prepared *p)
{
	unsigned counts[KIND_COUNT], room = sites_room(s->options.forecast);
	enum probe_kind kind;
	int r = 0;

	sites_count(p, &s->options.detail, counts);
	while (r >= 0 && (kind = sites_excess(counts, s->refused_kinds, room)) < KIND_COUNT) {
		s->crowded[kind] = counts[kind];
		r = leave_out(s, 1u << kind);
		/* Of the other targets, too: half of a kind would show what is not so. */
		if (r >= 0)
			r = call_for_kind(s, BROKER_SHED, kind);
	}
	return r;
}

/* The layouts that packs know before the first object is used. */
static void share_constant_layouts(struct session *s, unsigned target, const struct pack_set *set)
{
	struct record_layout layout;

	for (unsigned i = 0; i < set->n_named; i++)
		if (layout_is_constant(&set->named[i]->names, &layout))
			layout_share(&layout, &s->control->layout[target][i]);
}

static int add_to_sinks(struct session *s, const struct session_target *t)
{
	const struct target *of = &t->prepared->target;
	struct correlate_target target = { .pid = (uint32_t)of->pid,
					   .parent = (uint32_t)of->parent,
					   .own_pid = (uint32_t)of->own_pid,
					   .is_child = t->prepared->is_child,
					   .packs = of->packs,
					   .ops_at_entry = s->options.detail.ops_at_entry,
					   .since_ns = t->added_ns };

	memcpy(target.name, of->name, sizeof(target.name));
	target.has_handlers = prepared_does(t->prepared, VERB_OPEN, WORK_REQUEST);
	target.ops_at_entry |= prepared_lacks_ends(t->prepared);
	return sinks_target(&s->options.sinks, &target);
}

/* A process that is a target already may have more files to probe; s->n_targets: it is a new
 * one. */
static unsigned find_target(const struct session *s, const struct target *target)
{
	unsigned i = 0;

	while (i < s->n_targets && s->targets[i].prepared->target.program != target->program)
		i++;
	return i;
}

static int new_target(struct session *s, const struct prepared *target, char *text,
		      size_t text_size)
{
	struct broker_message m = { .type = BROKER_TARGET,
				    .id = s->id,
				    .pid = (uint32_t)target->target.pid };
	struct session_target *t;
	int r;

	if (s->n_targets == RECORD_MAX_TARGETS)
		return -E2BIG;
	r = proxy_call(s->options.proxy, &m, NULL, NULL);
	if (r < 0) {
		snprintf(text, text_size, "%s", m.text);
		return r;
	}
	if (m.index != s->n_targets)
		return -EBADMSG;
	for (unsigned i = 0; i < s->n_targets; i++)
		if (s->targets[i].prepared->target.pid == target->target.pid)
			s->targets[i].left_out = true;
	t = &s->targets[s->n_targets++];
	*t = (struct session_target){ .prepared = target };
	layouts_init(&t->layouts, target->target.packs);
	share_constant_layouts(s, s->n_targets - 1, target->target.packs);
	drain_set_target(s->drain, s->n_targets - 1, target->target.pid);
	t->pidfd = (int)syscall(SYS_pidfd_open, target->target.pid, 0);
	t->added_ns = loop_now();
	t->cpu_base_ns = t->cpu_ns = process_cpu_ns(target->target.pid);
	return s->opened ? add_to_sinks(s, t) : 0;
}

void session_forget(struct session *s, unsigned target)
{
	s->targets[target].left_out = true;
	proxy_call(s->options.proxy,
		   &(struct broker_message){ .type = BROKER_FORGET, .id = s->id, .index = target },
		   NULL, NULL);
}

int session_add(struct session *s, const struct prepared *target, char *ret_text, size_t text_size)
{
	unsigned index = find_target(s, &target->target);
	bool is_new = index == s->n_targets;
	int r = 0;

	if (is_new)
		r = new_target(s, target, ret_text, text_size);
	if (r >= 0)
		r = hits_add(&s->hits, index, target);
	if (r >= 0)
		r = make_room(s, target);
	for (unsigned f = 0; f < target->n_files && r >= 0; f++)
		r = sites_send(s->options.proxy, s->id, index, target, f, s->refused_kinds,
			       &s->options.detail, ret_text, text_size);
	if (r >= 0 && s->opened)
		r = name_lists_feed(&s->options.sinks, target, index,
				    MAX(s->start_ns, session_settled_ns(s)));
	if (r >= 0 && is_new)
		warnings_of_probes(&s->warnings, target, &s->options.detail, s->options.forecast);
	/* What the broker has of it already must not be attached together with the next target. */
	if (r < 0 && is_new && index < s->n_targets)
		session_forget(s, index);
	return r;
}

static void end_capture(struct session *s)
{
	if (s->open)
		proxy_call_id(s->options.proxy, BROKER_END, s->id);
	s->open = false;
}

struct session *session_free(struct session *s)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (!s)
		return NULL;
	end_capture(s);
	for (unsigned i = 0; i < s->n_targets; i++)
		safe_close(s->targets[i].pidfd);
	hits_done(&s->hits);
	drain_free(s->drain);
	if (s->control)
		munmap(s->control, (sizeof(*s->control) + page - 1) & ~(page - 1));
	warnings_done(&s->warnings);
	free(s);
	return NULL;
}

int session_attach(struct session *s, char *ret_text, size_t text_size)
{
	struct broker_message m = { .type = BROKER_ATTACH, .id = s->id };
	int r = proxy_call(s->options.proxy, &m, NULL, NULL);

	if (r < 0)
		snprintf(ret_text, text_size, "%s", m.text);
	for (unsigned i = 0; r >= 0 && i < s->n_targets; i++)
		if (m.index & 1u << i && !s->targets[i].left_out) {
			s->targets[i].left_out = true;
			warnings_add(
				&s->warnings,
				"Process %d (%s) is not shown: the kernel refused a probe in it.",
				s->targets[i].prepared->target.pid,
				s->targets[i].prepared->target.name);
		}
	return r < 0 ? r : leave_out(s, m.kinds);
}

/* In this order it cannot be open too early: its end still closes it. */
static void open_at(struct session *s, uint64_t start, uint64_t duration)
{
	__atomic_store_n(&s->control->window_start, start, __ATOMIC_SEQ_CST);
	session_close(s, start + duration);
}

int session_open(struct session *s, uint64_t duration, uint64_t *ret_start)
{
	char text[160];
	uint64_t start = loop_now() + OPEN_AFTER_NS, now;
	int r;

	open_at(s, start, duration);
	now = loop_now();
	/* This thread was delayed past that time: everything is seen at least from now on. */
	if (now > start) {
		start = now;
		open_at(s, start, duration);
	}
	*ret_start = s->start_ns = start;
	r = sinks_begin(&s->options.sinks, start);
	s->opened = r >= 0;
	if (s->opened)
		drain_begin(s->drain);
	for (unsigned i = 0; i < s->n_targets && r >= 0; i++)
		r = add_to_sinks(s, &s->targets[i])
			    ?: name_lists_feed(&s->options.sinks, s->targets[i].prepared, i, start);
	for (enum probe_kind kind = 0; kind < KIND_COUNT && r >= 0; kind++)
		if (s->refused_kinds & 1u << kind)
			r = sinks_shed(&s->options.sinks, kind, start,
				       describe_refused(s, kind, text, sizeof(text)));
	return MIN(r, 0);
}

unsigned session_refused_kinds(const struct session *s)
{
	return s->refused_kinds;
}

void session_close(struct session *s, uint64_t stop)
{
	__atomic_store_n(&s->control->window_stop, stop, __ATOMIC_SEQ_CST);
}

int session_shed(struct session *s, enum probe_kind kind, const char *text)
{
	/* Hits from now on do not count: some probes are detached before others. */
	int r = sinks_shed(&s->options.sinks, kind, loop_now(), text);

	return r < 0 ? r : call_for_kind(s, BROKER_SHED, kind);
}

int session_resume(struct session *s, unsigned kinds)
{
	uint64_t now;
	int r = 0;

	for (enum probe_kind kind = 0; kind < KIND_COUNT && r >= 0; kind++)
		if (kinds & 1u << kind)
			r = call_for_kind(s, BROKER_RESUME, kind);
	/* What the first of the probes recorded before the last one was there does not count. */
	now = loop_now();
	for (enum probe_kind kind = 0; kind < KIND_COUNT && r >= 0; kind++)
		if (kinds & 1u << kind)
			r = sinks_resume(&s->options.sinks, kind, now);
	return r;
}

/* Once enough objects show where their names are. */
static int learn_layout(struct session *s, const struct record_object *o)
{
	struct record_layout layout;
	unsigned named;
	int r;

	if (o->head.target >= s->n_targets ||
	    !layouts_learn(&s->targets[o->head.target].layouts, o, &named, &layout))
		return 0;
	r = sinks_layout(&s->options.sinks, o->head.target, named, &layout);
	layout_share(&layout, &s->control->layout[o->head.target][named]);
	return r < 0 ? -ENOMEM : 0;
}

static int on_record(const struct record *record, void *data)
{
	struct session *s = data;

	hits_count(&s->hits, record);
	return record->kind == RECORD_OBJECT ? learn_layout(s, (const void *)record) : 0;
}

int session_drain(struct session *s)
{
	return is_orphaned(s) ? -EPIPE : drain_read(s->drain);
}

uint64_t session_settled_ns(const struct session *s)
{
	return drain_settled_ns(s->drain);
}

int session_name_threads(struct session *s)
{
	struct broker_message m = { .type = BROKER_NAME_THREADS, .id = s->id };
	int r = proxy_call(s->options.proxy, &m, NULL, NULL);

	if (r == -EPIPE || is_orphaned(s))
		return -EPIPE;
	if (r < 0)
		warnings_add(&s->warnings, "Names of threads are missing.");
	else
		s->skipped = m.count;
	return 0;
}

int session_finish(struct session *s)
{
	int orphaned = session_name_threads(s), r;

	/* Nothing is recorded any more: detaching goes on while the answer is made. */
	end_capture(s);
	/* A program may still be writing its record, and all later ones wait for it. */
	for (int i = 0; i < FINISH_ROUNDS || drain_is_waiting(s->drain); i++) {
		drain_read(s->drain);
		if (drain_is_empty(s->drain) && i > 0)
			break;
		poll(NULL, 0, 1);
	}
	r = drain_finish(s->drain);
	warnings_of_stacks(&s->warnings, s->drain);
	for (unsigned i = 0; i < s->n_targets; i++)
		if (layouts_n_unknown(&s->targets[i].layouts))
			warnings_add(
				&s->warnings,
				"Process %d: the location of operation names in this build was not found (%u operations seen).",
				s->targets[i].prepared->target.pid,
				layouts_n_unknown(&s->targets[i].layouts));
	return r < 0 ? r : orphaned;
}

void session_count(const struct session *s, struct drain_counts *ret)
{
	drain_count(s->drain, ret);
	ret->skipped = s->skipped;
	ret->dropped += ret->skipped;
}

const uint64_t *session_cost_ns(const struct session *s)
{
	return s->hits.cost_ns;
}

uint64_t session_cpu_ns(struct session *s)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < s->n_targets; i++) {
		struct session_target *t = &s->targets[i];

		/* For a process that has ended the last value stays. */
		if (!t->left_out && !session_target_ended(s, i))
			t->cpu_ns = MAX(t->cpu_ns, process_cpu_ns(t->prepared->target.pid));
		sum += t->cpu_ns - t->cpu_base_ns;
	}
	return sum;
}

bool session_target_ended(const struct session *s, unsigned target)
{
	return pidfd_ended(s->targets[target].pidfd);
}

bool session_target_left_out(const struct session *s, unsigned target)
{
	return s->targets[target].left_out;
}

pid_t session_target_pid(const struct session *s, unsigned target)
{
	return s->targets[target].prepared->target.pid;
}

uint32_t session_id(const struct session *s)
{
	return s->id;
}

unsigned session_n_targets(const struct session *s)
{
	return s->n_targets;
}

unsigned session_n_captured(const struct session *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->n_targets; i++)
		n += !s->targets[i].left_out;
	return n;
}

int session_next_module(struct session *s, unsigned target, char *name, char *ret_text,
			size_t text_size)
{
	struct broker_message m = { .type = BROKER_MODULE, .id = s->id, .index = target };
	unsigned n_fds;
	int fd = -1, r;

	_Static_assert(sizeof(m.name) == SESSION_NAME_MAX, "names of files");
	snprintf(m.name, sizeof(m.name), "%s", name);
	r = proxy_call(s->options.proxy, &m, &fd, &n_fds);
	snprintf(name, SESSION_NAME_MAX, "%.*s", (int)sizeof(m.name) - 1, m.name);
	if (r < 0)
		snprintf(ret_text, text_size, "%s", m.text);
	return r < 0 ? r : fd;
}

bool session_targets_ended(const struct session *s)
{
	for (unsigned i = 0; i < s->n_targets; i++)
		if (!s->targets[i].left_out && !s->targets[i].prepared->is_child &&
		    !session_target_ended(s, i))
			return false;
	return true;
}
