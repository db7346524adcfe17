/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/kernel/attach.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/broker/kernel/counts.h"
#include "daemon/broker/kernel/cpu_samples.h"
#include "daemon/broker/kernel/empty_program.h"
#include "daemon/broker/kernel/iterator.h"
#include "daemon/broker/kernel/perf_uprobe.h"
#include "daemon/broker/kernel/program_cache.h"
#include "daemon/broker/kernel/site_log.h"
#include "daemon/broker/kernel/uprobe_multi.h"
#include "daemon/broker/limits.h"
#include "include/record_types.h"
#include "lib/base/array.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"
#include "lib/base/parallel.h"

#define CLOSERS 16

/* What is attached: a link of many sites of one process, a perf event, or a tracepoint. */
struct attached {
	int fd; /* of the link */
	/* The perf event that the link belongs to; -1: none. */
	int event;
	pid_t pid; /* 0: a tracepoint */
	enum probe_kind kind;
};

struct detached {
	struct site_log *log;
	unsigned n;
	struct attached links[];
};

struct attachment {
	enum attach_mode mode;
	struct program_cache *cache;
	unsigned stacks_hz;
	bool tracepoints; /* they are attached, and so are the samples of CPUs */
	/* Number of targets whose listening sockets were looked up. */
	unsigned n_listeners_found;
	struct programs bpf;
	struct site_log *log; /* NULL: there is no file */
	struct attach_site *sites;
	size_t sites_allocated;
	unsigned n_sites, n_attached;
	struct record_targets targets;
	struct attached *links;
	size_t links_allocated;
	unsigned n_links;
	bool shed[KIND_COUNT];
	struct record_path paths[RECORD_PATHS];
	unsigned n_paths;
};

int attach_mode_find(void)
{
	_cleanup_close_ int program = empty_program_load(ATTACH_MULTI);
	uint64_t offset = 0;
	int r;

	if (program < 0)
		return program == -EPERM ? -EPERM : ATTACH_PERF_EVENT;
	/* A directory cannot be probed: -EBADF means that the kernel understood the request. */
	r = uprobe_multi_link(program, "/", &offset, NULL, NULL, 1, false, 0);
	if (r >= 0)
		close(r);
	return r == -EBADF || r == -EISDIR ? ATTACH_MULTI : ATTACH_PERF_EVENT;
}

static int expected_type(enum attach_mode mode)
{
	return mode == ATTACH_MULTI ? ATTACH_TYPE_UPROBE_MULTI : 0;
}

int attachment_new(enum attach_mode mode, unsigned kinds, unsigned stacks_hz,
		   struct program_cache *cache, int state, struct attachment **ret,
		   char *ret_reason, size_t size)
{
	struct attachment *a = calloc(1, sizeof(*a));
	int r;

	if (!a) {
		snprintf(ret_reason, size, "no memory");
		return -ENOMEM;
	}
	a->mode = mode;
	a->cache = cache;
	a->stacks_hz = stacks_hz;
	r = programs_load(cache, expected_type(mode), kinds, &a->bpf, ret_reason, size);
	if (r < 0) {
		free(a);
		return r;
	}
	r = site_log_new(state, &a->log);
	if (r < 0)
		log_warning_errno(
			r,
			"cannot write to the state directory: %m; if the broker is killed, probes may stay");
	*ret = a;
	return 0;
}

static void attached_done(const struct attached *link)
{
	close(link->fd);
	safe_close(link->event);
}

static void close_link(unsigned i, void *links)
{
	attached_done((const struct attached *)links + i);
}

/* Closing a link waits for grace periods of the kernel; links that are closed in parallel wait for
 * the same ones. */
static void links_done(struct attached *links, unsigned n)
{
	parallel_run(CLOSERS, n, close_link, links);
}

struct attachment *attachment_free(struct attachment *a)
{
	if (!a)
		return NULL;
	links_done(a->links, a->n_links);
	site_log_unref(a->log);
	free(a->links);
	free(a->sites);
	programs_done(&a->bpf);
	free(a);
	return NULL;
}

struct attachment_form attachment_form(const struct attachment *a)
{
	return (struct attachment_form){ .cache = a->cache,
					 .attach_type = expected_type(a->mode),
					 .kinds = a->bpf.kinds };
}

unsigned attachment_fds(const struct attachment *a, int ret_fds[BROKER_MAX_FDS])
{
	unsigned n = 0;

	ret_fds[n++] = a->bpf.control;
	ret_fds[n++] = a->bpf.counters;
	for (unsigned i = 0; i < a->bpf.n_rings; i++)
		ret_fds[n++] = a->bpf.rings[i];
	ret_fds[n++] = a->bpf.spare_ring;
	return n;
}

unsigned attachment_kinds(const struct attachment *a)
{
	return a->bpf.kinds;
}

bool attachment_slows_every_call(const struct attachment *a)
{
	return a->bpf.programs[PROGRAM_SYS_EXIT] >= 0;
}

/* Another program of the process has it elsewhere. */
static void forget_interpreter(struct attachment *a, pid_t pid)
{
	static const struct record_interpreter none;

	for (__u32 i = 0; i < a->targets.n && a->bpf.interpreters >= 0; i++)
		if (a->targets.pids[i] == (__u32)pid)
			bpf_map_update_elem(a->bpf.interpreters, &i, &none, 0);
}

/* Id 0 is the idle task's: it is not used. */
static void clear_target(struct attachment *a, pid_t pid)
{
	forget_interpreter(a, pid);
	for (unsigned i = 0; i < a->targets.n; i++)
		if (a->targets.pids[i] == (__u32)pid) {
			a->targets.pids[i] = UINT32_MAX;
			a->targets.alive_ns[i] = 0;
		}
}

void attachment_show_all_users(struct attachment *a)
{
	a->targets.shows_all_users = true;
}

int attachment_add_target(struct attachment *a, pid_t pid, uint64_t alive_ns)
{
	__u32 zero = 0;

	if (a->targets.n == RECORD_MAX_TARGETS)
		return -E2BIG;
	clear_target(a, pid);
	a->targets.pids[a->targets.n] = (__u32)pid;
	a->targets.alive_ns[a->targets.n++] = alive_ns;
	return bpf_map_update_elem(a->bpf.targets, &zero, &a->targets, 0) < 0 ? -errno : 0;
}

int attachment_add_site(struct attachment *a, const struct attach_site *site)
{
	if (a->n_sites >=
	    (a->mode == ATTACH_PERF_EVENT ? BROKER_MAX_PERF_EVENTS : BROKER_MAX_SITES))
		return -E2BIG;
	if (array_reserve(&a->sites, a->n_sites, &a->sites_allocated, sizeof(a->sites[0]), 1) < 0)
		return -ENOMEM;
	a->sites[a->n_sites++] = *site;
	return 0;
}

static bool is_path(const struct record_path *path)
{
	for (unsigned i = 0; i < PATH_READS; i++) {
		if (path->n_steps[i] > RECORD_STEPS)
			return false;
		for (unsigned k = 0; k < RECORD_STEPS; k++)
			if (path->steps[i][k] > RECORD_STEP_MAX)
				return false;
	}
	return true;
}

int attachment_add_path(struct attachment *a, const struct record_path *path, uint64_t *cookie)
{
	__u32 number = 0;

	if (!is_path(path) || COOKIE_OFFSET(*cookie))
		return -EINVAL;
	while (number < a->n_paths && memcmp(&a->paths[number], path, sizeof(*path)))
		number++;
	if (number == RECORD_PATHS)
		return -E2BIG;
	if (number == a->n_paths) {
		if (bpf_map_update_elem(a->bpf.paths, &number, path, 0) < 0)
			return -errno;
		a->paths[a->n_paths++] = *path;
	}
	*cookie |= (uint64_t)number << COOKIE_OFFSET_SHIFT;
	return 0;
}

int attachment_add_interpreter(struct attachment *a, unsigned target,
			       const struct record_interpreter *interpreter)
{
	struct record_interpreter known = {};
	__u32 index = target;

	if (a->bpf.programs[PROGRAM_SAMPLE_SCRIPTS] < 0 || target >= a->targets.n)
		return -EOPNOTSUPP;
	if (bpf_map_lookup_elem(a->bpf.interpreters, &index, &known) == 0 && known.runtime)
		return 0;
	return bpf_map_update_elem(a->bpf.interpreters, &index, interpreter, 0) < 0 ? -errno : 0;
}

/* Moves the chosen links to a list of their own; NULL: there are none. -ENOMEM. */
static int take_links(struct attachment *a, bool by_pid, pid_t pid, enum probe_kind kind,
		      struct detached **ret)
{
	struct detached *d = calloc(1, sizeof(*d) + a->n_links * sizeof(d->links[0]));
	unsigned kept = 0;

	if (!d)
		return -ENOMEM;
	for (unsigned i = 0; i < a->n_links; i++) {
		const struct attached *link = &a->links[i];
		bool is_taken = by_pid ? link->pid == pid : link->kind == kind;

		if (is_taken)
			d->links[d->n++] = *link;
		else
			a->links[kept++] = *link;
	}
	a->n_links = kept;
	d->log = site_log_ref(a->log);
	*ret = d;
	return 0;
}

int attachment_forget(struct attachment *a, pid_t pid, bool watch, struct detached **ret)
{
	__u32 zero = 0;

	unsigned n = 0, n_attached = 0;

	/* Its sites take no room from others, and are not attached again. */
	for (unsigned i = 0; i < a->n_sites; i++) {
		if (a->sites[i].pid == pid)
			continue;
		n_attached += i < a->n_attached;
		a->sites[n++] = a->sites[i];
	}
	a->n_sites = n;
	a->n_attached = n_attached;
	forget_interpreter(a, pid);
	if (watch)
		return take_links(a, true, pid, KIND_COUNT, ret);
	clear_target(a, pid);
	bpf_map_update_elem(a->bpf.targets, &zero, &a->targets, 0);
	return take_links(a, true, pid, KIND_COUNT, ret);
}

int attachment_shed(struct attachment *a, enum probe_kind kind, struct detached **ret)
{
	a->shed[kind] = true;
	return take_links(a, false, 0, kind, ret);
}

struct detached *detached_free(struct detached *d)
{
	if (d) {
		links_done(d->links, d->n);
		site_log_unref(d->log);
	}
	free(d);
	return NULL;
}

static int add_link(struct attachment *a, struct attached link)
{
	if (array_reserve(&a->links, a->n_links, &a->links_allocated, sizeof(a->links[0]), 1) < 0) {
		attached_done(&link);
		return -E2BIG;
	}
	a->links[a->n_links++] = link;
	return 0;
}

/* The program for a site. */
static int program_of(const struct attachment *a, const struct attach_site *site)
{
	return a->bpf.programs[site->kind == KIND_DECRYPTED ? PROGRAM_PLAINTEXT : PROGRAM_PROBE];
}

static bool is_at_return(const struct attach_site *site)
{
	return site->cookie & COOKIE_RETURN;
}

/* Makes one link for all sites of one process, file and kind, at entries or at returns, that are
 * not done, beginning with the site at first. */
static int attach_group(struct attachment *a, unsigned first, bool *done)
{
	const struct attach_site *site = &a->sites[first];
	_cleanup_free_ uint64_t *words = malloc(3 * (size_t)a->n_sites * sizeof(words[0]));
	uint64_t *offsets = words, *cookies = words + a->n_sites;
	uint64_t *semaphores = words + 2 * (size_t)a->n_sites;
	bool any_semaphore = false;
	unsigned n = 0;
	char path[32];
	int link;

	if (!words)
		return -ENOMEM;
	for (unsigned i = first; i < a->n_sites; i++) {
		const struct attach_site *s = &a->sites[i];

		if (done[i] || s->pid != site->pid || s->file != site->file ||
		    s->kind != site->kind || is_at_return(s) != is_at_return(site))
			continue;
		done[i] = true;
		offsets[n] = s->offset;
		semaphores[n] = s->semaphore;
		any_semaphore |= s->semaphore != 0;
		cookies[n++] = s->cookie;
	}
	/* The log has those that are attached again. */
	if (first >= a->n_attached)
		site_log_add(a->log, site->pid, site->file, offsets, semaphores, n);
	/* The very file that the front has read, whatever its path refers to now. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", site->file);
	link = uprobe_multi_link(program_of(a, site), path, offsets, cookies,
				 any_semaphore ? semaphores : NULL, n, is_at_return(site),
				 site->pid);
	if (link < 0)
		return link == -ESRCH ? 0 : link;
	return add_link(a, (struct attached){
				   .fd = link, .event = -1, .pid = site->pid, .kind = site->kind });
}

static int attach_by_perf_event(struct attachment *a, const struct attach_site *site)
{
	struct attached link = { .event = -1, .pid = site->pid, .kind = site->kind };

	site_log_add(a->log, site->pid, site->file, &site->offset, &site->semaphore, 1);
	link.fd = perf_uprobe_link(program_of(a, site), site->file, site->offset, site->cookie,
				   site->semaphore, is_at_return(site), site->pid, &link.event);
	if (link.fd < 0)
		return link.fd == -ESRCH ? 0 : link.fd;
	return add_link(a, link);
}

static int attach_tracepoint(struct attachment *a, enum program program, enum probe_kind kind)
{
	int fd = bpf_link_create(a->bpf.programs[program], 0,
				 program_attach_type(&program_facts[program]), NULL);

	return fd < 0 ? -errno
		      : add_link(a, (struct attached){ .fd = fd, .event = -1, .kind = kind });
}

/* Finds the listening sockets of the targets. */
static void find_listeners(struct attachment *a)
{
	for (; a->n_listeners_found < a->targets.n && a->bpf.kinds & KIND_BIT(KIND_SOCKETS);
	     a->n_listeners_found++)
		if (a->targets.pids[a->n_listeners_found] != UINT32_MAX)
			iterator_run(a->bpf.programs[PROGRAM_FIND_LISTENERS],
				     (pid_t)a->targets.pids[a->n_listeners_found]);
}

static bool contains_process(const struct refused *refused, pid_t pid)
{
	for (unsigned i = 0; i < refused->n; i++)
		if (refused->pids[i] == pid)
			return true;
	return false;
}

/* Whether any process is probed that was not refused. */
static bool any_other(const struct attachment *a, const struct refused *refused)
{
	for (unsigned i = 0; i < a->n_links; i++)
		if (a->links[i].pid && !contains_process(refused, a->links[i].pid))
			return true;
	return false;
}

/* Detaches what is already attached of the kind: incomplete probes would show wrong results.
 * -ENOMEM. */
static int leave_out(struct attachment *a, enum probe_kind kind, int error, struct refused *refused)
{
	int r = attachment_shed(a, kind, &refused->links[refused->n_links]);

	log_warning_errno(error, "the kernel refused what is needed for %s (%m): not captured",
			  probe_kind_name(kind));
	refused->n_links += r >= 0;
	refused->kinds |= KIND_BIT(kind);
	return r;
}

static int sampler(const struct attachment *a)
{
	int with_scripts = a->bpf.programs[PROGRAM_SAMPLE_SCRIPTS];

	return with_scripts >= 0 ? with_scripts : a->bpf.programs[PROGRAM_SAMPLE];
}

static int sample_cpu(struct attachment *a, int cpu)
{
	struct attached link = { .event = -1, .kind = KIND_STACKS };

	link.fd = cpu_samples_link(sampler(a), cpu, a->stacks_hz, &link.event);
	/* An offline CPU. */
	if (link.fd < 0)
		return link.fd == -ENODEV ? 0 : link.fd;
	return add_link(a, link);
}

/* Samples every CPU, or none. */
static int sample_cpus(struct attachment *a, struct refused *refused)
{
	long n = sysconf(_SC_NPROCESSORS_CONF);
	int r = 0;

	if (sampler(a) < 0 || a->shed[KIND_STACKS])
		return 0;
	for (int cpu = 0; cpu < n && r >= 0; cpu++)
		r = sample_cpu(a, cpu);
	return r < 0 && !is_out_of_room(r) ? leave_out(a, KIND_STACKS, r, refused) : r;
}

/* Goes without the optional tracepoints that the kernel refuses. */
static int attach_tracepoints(struct attachment *a, struct refused *refused)
{
	int r = 0;

	for (enum program i = 0; i < PROGRAM_COUNT && r >= 0; i++) {
		const struct program_facts *f = &program_facts[i];

		if (f->place == PLACE_NONE || a->bpf.programs[i] < 0 ||
		    (f->kind != KIND_COUNT && a->shed[f->kind]))
			continue;
		r = attach_tracepoint(a, i, f->kind);
		if (r < 0 && !is_out_of_room(r) && f->kind != KIND_COUNT)
			r = f->is_extra ? 0 : leave_out(a, f->kind, r, refused);
	}
	if (r >= 0)
		r = sample_cpus(a, refused);
	a->tracepoints = r >= 0;
	return r;
}

int attachment_resume(struct attachment *a, enum probe_kind kind, struct detached **ret)
{
	_cleanup_free_ bool *done = calloc((size_t)a->n_sites + 1, sizeof(done[0]));
	int r = done ? 0 : -ENOMEM;

	*ret = NULL;
	if (a->mode == ATTACH_PERF_EVENT)
		return -EOPNOTSUPP;
	if (!a->shed[kind])
		return 0;
	if (done)
		memset(done + a->n_attached, 1, a->n_sites - a->n_attached);
	for (unsigned i = 0; i < a->n_attached && r >= 0; i++)
		if (!done[i] && a->sites[i].kind == kind)
			r = attach_group(a, i, done);
	a->shed[kind] = r < 0;
	if (r < 0)
		take_links(a, false, 0, kind, ret);
	return r;
}

int attachment_attach(struct attachment *a, struct refused *ret_refused, const char **ret_reason)
{
	_cleanup_free_ bool *done = calloc((size_t)a->n_sites + 1, sizeof(done[0]));
	int r = done ? 0 : -ENOMEM, refused = 0;

	*ret_refused = (struct refused){};
	if (done)
		memset(done, 1, a->n_attached);
	for (unsigned i = a->n_attached; i < a->n_sites && r >= 0; i++) {
		const struct attach_site *site = &a->sites[i];

		if (!site->pid || done[i] || a->shed[site->kind] ||
		    contains_process(ret_refused, site->pid))
			continue;
		r = a->mode == ATTACH_PERF_EVENT ? attach_by_perf_event(a, site)
						 : attach_group(a, i, done);
		if (r < 0 && !is_out_of_room(r) && probe_kind_is_optional(site->kind))
			r = leave_out(a, site->kind, r, ret_refused);
		/* A refused site in one process's file affects that process only. */
		if (r < 0 && !is_out_of_room(r) && ret_refused->n < RECORD_MAX_TARGETS) {
			ret_refused->pids[ret_refused->n++] = site->pid;
			refused = r;
			r = 0;
		}
	}
	a->n_attached = a->n_sites;
	if (r >= 0 && refused && !any_other(a, ret_refused))
		r = refused;
	if (r < 0) {
		*ret_reason = "the kernel refused a uprobe";
		return r;
	}
	find_listeners(a);
	if (a->tracepoints)
		return 0;
	r = attach_tracepoints(a, ret_refused);
	if (r < 0)
		*ret_reason = "the kernel refused a tracepoint, or the samples of a CPU";
	return r;
}

unsigned attachment_links(const struct attachment *a)
{
	return a->n_links;
}

uint64_t attachment_skipped(const struct attachment *a)
{
	return counts_skipped(a->bpf.programs, PROGRAM_COUNT);
}

int attachment_name_threads(struct attachment *a)
{
	return iterator_run(a->bpf.programs[PROGRAM_NAME_THREADS], 0);
}
