#include "daemon/capture/session.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "daemon/correlate/correlate.h"
#include "daemon/correlate/layout.h"
#include "daemon/record/ring.h"
#include "daemon/record/store.h"
#include "lib/base/macro.h"

/* Of records that wait to be put in order. */
#define STORE_BYTES_MAX (256ull << 20)
/* A record can come so much later than its time: between the two, its thread can lose its CPU. */
#define REORDER_NS 100000000ull
#define WARNINGS_MAX 32
/* Of a millisecond each, for the last records to be complete. */
#define FINISH_ROUNDS 200

struct session_target {
	const struct target *target;
	int pidfd;
	uint32_t files[TARGET_FILES_MAX]; /* the broker's numbers */
	unsigned n_files;
	struct layout_search search;
	bool layout_known;
	struct record_layout layout;
};

struct session {
	struct proxy *proxy;
	uint32_t id; /* the broker's number of the capture */
	bool open;
	unsigned level, n_targets;
	struct session_target targets[RECORD_MAX_TARGETS];
	struct record_control *control;
	const struct record_counters *counters;
	struct ring *rings[RECORD_MAX_RINGS];
	unsigned n_rings;
	struct store *store;
	uint64_t records, refused, malformed;
	bool finished; /* the last record was read */
	struct correlator *correlator;
	uint64_t last_ns, late;
	int error; /* the first one */
	char *warnings[WARNINGS_MAX];
	unsigned n_warnings;
};

__attribute__((format(printf, 2, 3))) static void warn(struct session *s, const char *format, ...)
{
	va_list ap;

	if (s->n_warnings == WARNINGS_MAX)
		return;
	va_start(ap, format);
	if (vasprintf(&s->warnings[s->n_warnings], format, ap) >= 0)
		s->n_warnings++;
	va_end(ap);
}

unsigned session_warnings(const struct session *s)
{
	return s->n_warnings;
}

const char *session_warning(const struct session *s, unsigned i)
{
	return s->warnings[i];
}

static int map_everything(struct session *s, const int *fds, unsigned n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int r;

	if (n < 3 || n - 2 > RECORD_MAX_RINGS)
		return -EBADMSG;
	s->control = mmap(NULL, (sizeof(*s->control) + page - 1) & ~(page - 1), PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	if (s->control == MAP_FAILED) {
		s->control = NULL;
		return -errno;
	}
	s->counters = mmap(NULL, RECORD_MAX_CPUS * sizeof(*s->counters), PROT_READ, MAP_SHARED, fds[1], 0);
	if (s->counters == MAP_FAILED) {
		s->counters = NULL;
		return -errno;
	}
	for (unsigned i = 0; i < n - 2; i++) {
		r = ring_open(fds[i + 2], BROKER_RING_BYTES, &s->rings[i]);
		if (r < 0)
			return r;
		s->n_rings++;
	}
	return store_new(s->n_rings, STORE_BYTES_MAX, &s->store);
}

static int open_capture(struct session *s, uint32_t client, char *text, size_t text_size)
{
	struct broker_message m = { .type = BROKER_CAPTURE, .id = client, .level = s->level };
	int fds[BROKER_MAX_FDS], r;
	unsigned n = 0;

	r = proxy_call(s->proxy, &m, fds, &n);
	if (r < 0) {
		snprintf(text, text_size, "%s", m.text);
		return r;
	}
	s->id = m.id;
	s->open = true;
	r = map_everything(s, fds, n);
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
	return r;
}

/* The sites of one file, some per message. */
static int send_sites(struct session *s, unsigned target, uint32_t file, const struct plan *plan, char *text, size_t text_size)
{
	struct broker_message m;
	int r = 0;

	for (unsigned i = 0, n = 0; i <= plan->n_sites && r >= 0; i++) {
		const struct plan_site *site = i < plan->n_sites ? &plan->sites[i] : NULL;
		const struct probe_spec *spec = site ? &plan->pack->probes[site->spec] : NULL;

		if (spec && spec->min_level <= s->level)
			m.sites[n++] = (struct broker_site){ .offset = site->offset, .cookie = plan_cookie(plan, site, target) };
		if (!n || (site && n < BROKER_SITES_PER_MESSAGE))
			continue;
		m.type = BROKER_SITES;
		m.id = s->id;
		m.index = target;
		m.file = file;
		m.count = n;
		r = proxy_call(s->proxy, &m, NULL, NULL);
		if (r < 0)
			snprintf(text, text_size, "%s", m.text);
		n = 0;
	}
	return r;
}

/* Plans one file of a target; found[] gets the probes that have a site in it. */
static int add_file(struct session *s, struct plan_cache *plans, unsigned index, const struct target_file *file, bool *found, char *text,
		    size_t text_size)
{
	struct session_target *t = &s->targets[index];
	struct broker_message m = { .type = BROKER_OPEN, .pid = (uint32_t)t->target->pid, .start = file->start, .end = file->end };
	_cleanup_(plan_unrefp) struct plan *plan = NULL;
	const char *reason = NULL;
	unsigned n, stepped = 0;
	int fd = -1, r;

	r = proxy_call(s->proxy, &m, &fd, &n);
	if (r < 0) {
		snprintf(text, text_size, "cannot open %.120s of process %d: %s", file->path, t->target->pid, strerror(-r));
		return r;
	}
	t->files[t->n_files++] = m.id;
	r = plan_cache_get(plans, fd, t->target->pack, &plan, &reason);
	if (r < 0)
		snprintf(text, text_size, "cannot read %.120s: %s", file->path, reason ?: strerror(-r));
	if (r >= 0)
		r = send_sites(s, index, t->files[t->n_files - 1], plan, text, text_size);
	for (unsigned i = 0; r >= 0 && i < plan->n_sites; i++) {
		found[plan->sites[i].spec] = true;
		stepped += plan->sites[i].class == SITE_SINGLE_STEPPED && t->target->pack->probes[plan->sites[i].spec].min_level <= s->level;
	}
	close(fd);
	if (stepped)
		warn(s, "%u probes in %s cost some 20 times as much as others: their functions begin with instructions that are single-stepped.",
		     stepped, file->path);
	return r;
}

static int add_target(struct session *s, struct plan_cache *plans, unsigned index, char *text, size_t text_size)
{
	struct session_target *t = &s->targets[index];
	struct broker_message m = { .type = BROKER_TARGET, .id = s->id, .pid = (uint32_t)t->target->pid };
	const struct probe_pack *pack = t->target->pack;
	_cleanup_free_ bool *found = calloc(pack->n_probes, sizeof(found[0]));
	bool any = false;
	int r;

	if (!found)
		return -ENOMEM;
	r = proxy_call(s->proxy, &m, NULL, NULL);
	if (r < 0) {
		snprintf(text, text_size, "%s", m.text);
		return r;
	}
	if (m.index != index)
		return -EBADMSG;
	t->pidfd = (int)syscall(SYS_pidfd_open, t->target->pid, 0);
	t->search.pack = pack;
	for (unsigned i = 0; i < t->target->n_files; i++) {
		r = add_file(s, plans, index, &t->target->files[i], found, text, text_size);
		if (r < 0)
			return r;
	}
	for (unsigned i = 0; i < pack->n_probes; i++) {
		any |= found[i];
		if (!found[i] && pack->probes[i].lost && pack->probes[i].min_level <= s->level)
			warn(s, "Process %d: not shown: %s (no such function in this build).", t->target->pid, pack->probes[i].lost);
	}
	if (!any) {
		snprintf(text, text_size, "process %d maps %s, but none of its functions has a symbol", t->target->pid, pack->name);
		return -ENOENT;
	}
	return 0;
}

int session_new(struct proxy *proxy, struct plan_cache *plans, uint32_t client, struct target *targets, unsigned *n_targets,
		bool skip_ended, unsigned level, struct session **ret, char *ret_text, size_t text_size)
{
	struct session *s = calloc(1, sizeof(*s));
	unsigned left = *n_targets;
	int r;

	if (!s)
		return -ENOMEM;
	s->proxy = proxy;
	s->level = level;
	r = open_capture(s, client, ret_text, text_size);
	while (s->n_targets < left && r >= 0) {
		unsigned i = s->n_targets;

		s->targets[i] = (struct session_target){ .target = &targets[i], .pidfd = -1 };
		r = add_target(s, plans, i, ret_text, text_size);
		if (r == -ESRCH && skip_ended && left > 1 && !s->targets[i].n_files) {
			warn(s, "Process %d (%s) had ended before the capture began.", targets[i].pid, targets[i].name);
			memmove(&targets[i], &targets[i + 1], (--left - i) * sizeof(targets[0]));
			r = 0;
		} else {
			s->n_targets++;
		}
	}
	if (r < 0) {
		session_free(s);
		return r;
	}
	*n_targets = left;
	*ret = s;
	return 0;
}

struct session *session_free(struct session *s)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (!s)
		return NULL;
	if (s->open)
		proxy_call_id(s->proxy, BROKER_END, s->id);
	for (unsigned i = 0; i < s->n_targets; i++) {
		for (unsigned f = 0; f < s->targets[i].n_files; f++)
			proxy_call_id(s->proxy, BROKER_CLOSE, s->targets[i].files[f]);
		safe_close(s->targets[i].pidfd);
	}
	for (unsigned i = 0; i < s->n_rings; i++)
		ring_close(s->rings[i]);
	if (s->control)
		munmap(s->control, (sizeof(*s->control) + page - 1) & ~(page - 1));
	if (s->counters)
		munmap((void *)s->counters, RECORD_MAX_CPUS * sizeof(*s->counters));
	store_free(s->store);
	correlator_free(s->correlator);
	for (unsigned i = 0; i < s->n_warnings; i++)
		free(s->warnings[i]);
	free(s);
	return NULL;
}

int session_attach(struct session *s, char *ret_text, size_t text_size)
{
	struct broker_message m = { .type = BROKER_ATTACH, .id = s->id };
	int r = proxy_call(s->proxy, &m, NULL, NULL);

	if (r < 0)
		snprintf(ret_text, text_size, "%s", m.text);
	return r;
}

int session_open(struct session *s, uint64_t start, uint64_t stop)
{
	struct correlate_target targets[RECORD_MAX_TARGETS] = {};
	int r;

	for (unsigned i = 0; i < s->n_targets; i++) {
		targets[i] = (struct correlate_target){ .pid = (uint32_t)s->targets[i].target->pid, .pack = s->targets[i].target->pack };
		memcpy(targets[i].name, s->targets[i].target->name, sizeof(targets[i].name));
	}
	r = correlator_new(targets, s->n_targets, start, &s->correlator);
	if (r < 0)
		return r;
	/* In this order it is not open before its time: it was closed by its end. */
	__atomic_store_n(&s->control->window_start, start, __ATOMIC_SEQ_CST);
	session_close(s, stop);
	return 0;
}

void session_close(struct session *s, uint64_t stop)
{
	__atomic_store_n(&s->control->window_stop, stop, __ATOMIC_SEQ_CST);
}

/* As soon as enough objects have told, the programs send names instead of objects. */
static void learn_layout(struct session *s, const struct record_object *o)
{
	struct session_target *t;

	if (o->head.target >= s->n_targets)
		return;
	t = &s->targets[o->head.target];
	if (t->layout_known)
		return;
	layout_search_add(&t->search, o);
	if (!layout_search_result(&t->search, &t->layout))
		return;
	t->layout_known = true;
	if (correlator_set_layout(s->correlator, o->head.target, &t->layout) < 0)
		s->error = -ENOMEM;
	s->control->layout[o->head.target].name_offset = t->layout.name_offset;
	__atomic_store_n(&s->control->layout[o->head.target].type_offset, t->layout.type_offset, __ATOMIC_SEQ_CST);
}

struct drain {
	struct session *session;
	unsigned stream;
};

static int on_record(const void *record, size_t size, void *data)
{
	struct drain *d = data;
	struct session *s = d->session;
	const struct record *head = record;
	int r;

	r = store_add(s->store, d->stream, record, size);
	if (r == -ENOBUFS) {
		s->refused++;
	} else if (r < 0) {
		s->malformed++;
	} else {
		s->records++;
		if (head->kind == RECORD_OBJECT)
			learn_layout(s, record);
	}
	return 0;
}

static int feed(const struct record *record, void *data)
{
	struct session *s = data;

	s->late += record->time < s->last_ns;
	s->last_ns = MAX(s->last_ns, record->time);
	return correlator_feed(s->correlator, record);
}

int session_drain(struct session *s)
{
	uint64_t now = loop_now();
	bool whole = true;
	int r;

	for (unsigned i = 0; i < s->n_rings; i++) {
		struct drain d = { .session = s, .stream = i };

		whole &= ring_consume(s->rings[i], on_record, &d) == 0;
	}
	/* A ring that waits for a record holds back later ones, and what they must be put in order with. */
	if (whole) {
		r = store_take(s->store, now - MIN(now, REORDER_NS), feed, s);
		if (r < 0)
			s->error = r;
	}
	return s->error;
}

int session_finish(struct session *s)
{
	int r;

	if (proxy_call_id(s->proxy, BROKER_NAME_THREADS, s->id) < 0)
		warn(s, "Names of threads are missing.");
	/* A program that saw the window open may still be writing its record, and all later ones wait for it. */
	for (int i = 0; i < FINISH_ROUNDS; i++) {
		bool empty = true;

		session_drain(s);
		for (unsigned k = 0; k < s->n_rings; k++)
			empty &= ring_is_empty(s->rings[k]);
		if (empty && i > 0)
			break;
		poll(NULL, 0, 1);
	}
	s->finished = true;
	r = store_take(s->store, UINT64_MAX, feed, s);
	if (r < 0)
		s->error = r;
	for (unsigned i = 0; i < s->n_targets; i++)
		if (!s->targets[i].layout_known && s->targets[i].search.seen)
			warn(s, "Process %d: where this build keeps the names of operations was not found out (%u seen).",
			     s->targets[i].target->pid, s->targets[i].search.seen);
	return s->error;
}

void session_count(const struct session *s, struct session_counts *ret)
{
	uint64_t submitted = 0, seen = s->records + s->refused + s->malformed;

	*ret = (struct session_counts){ .records = s->records, .refused = s->refused, .malformed = s->malformed,
					.late = s->late };
	for (unsigned i = 0; i < RECORD_MAX_CPUS; i++) {
		submitted += s->counters[i].records;
		ret->ring_full += s->counters[i].ring_full;
		ret->table_full += s->counters[i].table_full;
		ret->read_failed += s->counters[i].read_failed;
	}
	if (s->finished && submitted > seen)
		ret->unread = submitted - seen;
	ret->dropped = ret->ring_full + ret->refused + ret->malformed + ret->unread;
}

bool session_target_ended(const struct session *s, unsigned target)
{
	struct pollfd p = { .fd = s->targets[target].pidfd, .events = POLLIN };

	return p.fd >= 0 && poll(&p, 1, 0) > 0;
}

bool session_targets_ended(const struct session *s)
{
	for (unsigned i = 0; i < s->n_targets; i++)
		if (!session_target_ended(s, i))
			return false;
	return true;
}

int session_timeline(struct session *s, uint64_t stop, uint64_t start_unix_ns, struct timeline **ret)
{
	return correlator_finish(s->correlator, stop, start_unix_ns, ret);
}
