/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/captures.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "daemon/broker/authority.h"
#include "daemon/broker/detacher.h"
#include "daemon/broker/identity.h"
#include "daemon/broker/interpreter.h"
#include "daemon/broker/kernel/program_cache.h"
#include "daemon/broker/modules.h"
#include "daemon/broker/process.h"
#include "daemon/plan/detail.h"
#include "include/record_types.h"
#include "lib/base/array.h"
#include "lib/base/loop.h"
#include "lib/base/macro.h"
#include "lib/base/share.h"
#include "lib/proc/pidfd.h"
#include "lib/proc/seccomp.h"

struct capture {
	bool is_used;
	struct attachment *attachment; /* NULL: its client has gone */
	uint32_t client;               /* who started it: its id */
	uid_t uid, holder;             /* its user, and whose share it has, from the start */
	bool shows_all_users;
	unsigned kinds;   /* that have programs of their own */
	unsigned resumes; /* that may be attached again after they were shed; a bit each */
	struct detacher detacher;
	struct attach_target {
		pid_t pid;
		int pidfd;
		bool ends; /* its first thread has ended */
		/* It has ended, is another user's program, or was added again: its id may be that
		 * of another target. */
		bool is_gone;
		unsigned n_sites;
		/* Bits of enum probe_kind that may be attached, and that were to be. */
		unsigned kinds, used;
	} targets[RECORD_MAX_TARGETS];
	unsigned n_targets;
	/* Files with sites that are not attached yet, or may be attached again. */
	int *files;
	size_t n_files, files_size;
};

struct captures {
	struct captures_options options;
	struct program_cache *programs;
	struct capture captures[BROKER_MAX_CAPTURES];
};

#define FAIL(m, error, ...)                                                                        \
	({                                                                                         \
		snprintf((m)->text, sizeof((m)->text), __VA_ARGS__);                               \
		(error);                                                                           \
	})

static struct capture *capture_get(struct captures *s, uint32_t id)
{
	return id < BROKER_MAX_CAPTURES && s->captures[id].attachment ? &s->captures[id] : NULL;
}

static void close_files(struct capture *c)
{
	for (size_t i = 0; i < c->n_files; i++)
		close(c->files[i]);
	free(c->files);
	c->files = NULL;
	c->n_files = c->files_size = 0;
}

/* Detaches everything. ready_ns: as detacher_end(). */
static void end_capture(struct capture *c, uint64_t ready_ns)
{
	close_files(c);
	if (c->attachment)
		detacher_end(&c->detacher, c->attachment, ready_ns);
	c->attachment = NULL;
	for (unsigned i = 0; i < c->n_targets; i++)
		close(c->targets[i].pidfd);
	c->n_targets = 0;
}

int captures_new(const struct captures_options *options, struct captures **ret)
{
	struct captures *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->options = *options;
	if (program_cache_new(options->state, &s->programs) < 0) {
		free(s);
		return -ENOMEM;
	}
	*ret = s;
	return 0;
}

struct captures *captures_free(struct captures *s)
{
	if (!s)
		return NULL;
	for (unsigned i = 0; i < BROKER_MAX_CAPTURES; i++)
		end_capture(&s->captures[i], 0);
	for (unsigned i = 0; i < BROKER_MAX_CAPTURES; i++)
		detacher_wait(&s->captures[i].detacher);
	program_cache_free(s->programs);
	free(s);
	return NULL;
}

struct program_cache *captures_programs(struct captures *s)
{
	return s->programs;
}

/* The front counts as well; what it grants is not relied upon. */
static int check_share(const struct captures *s, uid_t holder, struct broker_message *m)
{
	const uint64_t each = programs_ring_count() * (uint64_t)BROKER_RING_BYTES;
	const struct share captures = { .all = BROKER_MAX_CAPTURES,
					.per_user = BROKER_MAX_USER_CAPTURES },
			   bytes = { .all = BROKER_MAX_CAPTURES * each,
				     .per_user = s->options.user_ring_bytes };
	unsigned all = 0, own = 0;

	for (uint32_t i = 0; i < BROKER_MAX_CAPTURES; i++) {
		all += s->captures[i].attachment != NULL;
		own += s->captures[i].attachment && s->captures[i].holder == holder;
	}
	if (share_grant(&captures, holder, all, own, 1) == SHARE_ALL_HELD)
		return FAIL(m, -EBUSY, "%u captures are already running; wait for one to end", all);
	if (share_grant(&captures, holder, all, own, 1) == SHARE_OF_USER_HELD)
		return FAIL(m, -EBUSY,
			    "%u captures of user %u are already running; wait for one to end", own,
			    holder);
	if (share_grant(&bytes, holder, all * each, own * each, each) != SHARE_GRANTED)
		return FAIL(
			m, -EBUSY,
			"%u captures of user %u hold all ring buffers that one user may (tfprofd --ring-memory-per-user); wait for one to end",
			own, holder);
	return 0;
}

int captures_begin(struct captures *s, const struct authority_peer *peer, struct broker_message *m,
		   int *ret_fds, unsigned *ret_n_fds)
{
	int r = check_share(s, peer->holder, m);

	if (r >= 0 && m->kinds & 1u << KIND_STACKS && (!m->count || m->count > STACKS_HZ_MAX))
		return FAIL(m, -EINVAL, "stacks are sampled 1 to %d times a second", STACKS_HZ_MAX);
	/* Whatever the front claims: without a client nobody looks at stacks. */
	if (r >= 0 && m->kinds & 1u << KIND_STACKS && m->id == BROKER_DAEMON)
		return FAIL(m, -EINVAL, "stacks are sampled for clients only");
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < BROKER_MAX_CAPTURES; i++) {
		struct capture *c = &s->captures[i];

		if (c->is_used)
			continue;
		r = attachment_new(s->options.mode, m->kinds, m->count, s->programs,
				   s->options.state, &c->attachment, m->text, sizeof(m->text));
		if (r < 0)
			return r;
		c->is_used = true;
		c->client = m->id;
		c->uid = peer->uid;
		c->holder = peer->holder;
		c->kinds = m->kinds;
		c->resumes = m->kind;
		c->shows_all_users = m->id != BROKER_DAEMON && !m->index && peer->is_root;
		if (c->shows_all_users)
			attachment_show_all_users(c->attachment);
		m->id = i;
		m->kinds = attachment_kinds(c->attachment);
		m->index = attachment_slows_every_call(c->attachment);
		*ret_n_fds = attachment_fds(c->attachment, ret_fds);
		return 0;
	}
	return -EBUSY; /* not reached */
}

int captures_client(const struct captures *s, uint32_t id, uint32_t *ret_client, bool *ret_is_root)
{
	if (id >= BROKER_MAX_CAPTURES || !s->captures[id].attachment)
		return -EINVAL;
	*ret_client = s->captures[id].client;
	*ret_is_root = s->captures[id].shows_all_users;
	return 0;
}

unsigned captures_pids(const struct captures *s, uint32_t id, pid_t ret[static RECORD_MAX_TARGETS])
{
	const struct attach_target *t = s->captures[id].targets;

	for (unsigned i = 0; i < s->captures[id].n_targets; i++)
		ret[i] = t[i].is_gone || pidfd_ended(t[i].pidfd) ? 0 : t[i].pid;
	return s->captures[id].n_targets;
}

void captures_revoke(struct captures *s, uint32_t id)
{
	end_capture(&s->captures[id], 0);
}

/* Whether the capture's client may profile the process now, and which kinds of probes may be
 * attached to it. */
static int decide(const struct captures *s, const struct capture *c, pid_t pid, unsigned *ret_kinds,
		  char *text, size_t size)
{
	struct broker_message m = { .id = c->client, .pid = (uint32_t)pid };
	int r = s->options.may(&m, s->options.data);

	if (r == -EACCES && *m.text) {
		snprintf(text, size, "user %u may not profile process %d of user %u: %.127s",
			 c->uid, pid, m.uid, m.text);
		return r;
	}
	if (r == -EMFILE || r == -ENFILE) {
		snprintf(text, size, "cannot examine process %d: %s", pid, strerror(-r));
		return r;
	}
	if (r < 0) {
		snprintf(text, size, "process %d has ended", pid);
		return r == -ECANCELED ? r : -ESRCH;
	}
	*ret_kinds = authority_kinds(&m.ceiling);
	if (c->kinds & ~*ret_kinds) {
		snprintf(text, size, "process %d may not be captured at this level", pid);
		return -EACCES;
	}
	return 0;
}

static void forget(struct captures *s, struct capture *c, pid_t pid, bool watch)
{
	struct detached *links = NULL;

	attachment_forget(c->attachment, pid, watch, &links);
	if (links)
		detacher_take(&c->detacher, links);
}

static void forget_target(struct captures *s, struct capture *c, struct attach_target *t,
			  bool watch)
{
	t->is_gone = true;
	forget(s, c, t->pid, watch);
}

int captures_target(struct captures *s, struct broker_message *m)
{
	struct capture *c = capture_get(s, m->id);
	uint64_t alive_ns;
	unsigned kinds;
	int pidfd, r;

	if (!c)
		return -EINVAL;
	if (c->n_targets >= RECORD_MAX_TARGETS)
		return FAIL(m, -E2BIG, "more than %d processes in one capture", RECORD_MAX_TARGETS);
	/* The descriptor first: from now on the process id cannot be reused for another process
	 * unnoticed. */
	pidfd = (int)syscall(SYS_pidfd_open, m->pid, 0);
	if (pidfd < 0)
		return errno == ESRCH ? FAIL(m, -ESRCH, "no process %u", m->pid) : -errno;
	alive_ns = loop_now();
	r = decide(s, c, (pid_t)m->pid, &kinds, m->text, sizeof(m->text));
	/* The facts were read by process id: they are this process's only if the descriptor still
	 * refers to it. It also had that id, and had started, at alive_ns. */
	if (r >= 0 && pidfd_ended(pidfd))
		r = FAIL(m, -ESRCH, "process %u has ended", m->pid);
	/* The same process is added again only as another program: what is attached to it would
	 * report everything twice. */
	for (unsigned i = 0; i < c->n_targets && r >= 0; i++)
		if (c->targets[i].pid == (pid_t)m->pid && !c->targets[i].is_gone)
			forget_target(s, c, &c->targets[i], true);
	if (r >= 0)
		r = attachment_add_target(c->attachment, (pid_t)m->pid, alive_ns);
	if (r < 0) {
		close(pidfd);
		return r;
	}
	m->index = c->n_targets;
	c->targets[c->n_targets++] =
		(struct attach_target){ .pid = (pid_t)m->pid, .pidfd = pidfd, .kinds = kinds };
	return 0;
}

static int add_site(struct captures *s, struct capture *c, struct broker_message *m,
		    const struct mapped_file *file, const struct plan_site *planned)
{
	struct attach_target *t = &c->targets[m->index];
	struct record_path path;
	struct attach_site site;
	int r;

	if (file->plan->packs->rows[planned->spec]->work == WORK_SCRIPT)
		return interpreter_add(file, planned, c->attachment, m->index);
	r = site_check(file, planned, m->index, &site);
	if (r >= 0 && !(t->kinds >> site.kind & 1))
		return FAIL(m, -EACCES, "%s may not be captured in process %d",
			    probe_kind_name(site.kind), t->pid);
	if (r >= 0 && t->n_sites == BROKER_MAX_TARGET_SITES)
		return FAIL(m, -E2BIG, "process %d has more than %d functions to probe", t->pid,
			    BROKER_MAX_TARGET_SITES);
	if (r >= 0 && plan_read_path(file->plan, planned, &path))
		r = attachment_add_path(c->attachment, &path, &site.cookie);
	if (r >= 0)
		r = attachment_add_site(c->attachment, &site);
	t->n_sites += r >= 0;
	t->used |= r >= 0 ? 1u << site.kind : 0;
	return r != -E2BIG
		       ? r
		       : FAIL(m, r,
			      "a capture is limited to %d probes here: capture fewer processes, or use a lower level",
			      s->options.mode == ATTACH_PERF_EVENT ? BROKER_MAX_PERF_EVENTS
								   : BROKER_MAX_SITES);
}

int captures_sites(struct captures *s, struct broker_message *m, struct mapped_file *file)
{
	const struct broker_sites chosen = m->sites;
	struct capture *c = capture_get(s, m->id);
	bool is_used = false;
	int r;

	if (!c || m->index >= c->n_targets || file->pid != c->targets[m->index].pid)
		return -EINVAL;
	if (c->targets[m->index].is_gone)
		return 0;
	r = code_ranges_read(file->fd, &file->ranges);
	if (r < 0)
		return FAIL(m, r, "not an executable or library that can be probed");
	if (c->n_files == BROKER_MAX_CAPTURE_FILES)
		return -E2BIG;
	if (array_reserve(&c->files, c->n_files, &c->files_size, sizeof(c->files[0]), 1) < 0)
		return -ENOMEM;
	/* The front may close the file meanwhile. */
	file->fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
	if (file->fd < 0)
		return -EMFILE;
	c->files[c->n_files++] = file->fd;
	file->has_seccomp = seccomp_filters(file->pid);
	for (unsigned i = 0; i < PLAN_SITES_MAX && r >= 0; i++)
		if (chosen.words[i / 64] & UINT64_C(1) << i % 64) {
			r = i < file->plan->n_sites ? add_site(s, c, m, file, &file->plan->sites[i])
						    : -EINVAL;
			is_used |= r >= 0;
		}
	if (!is_used)
		close(c->files[--c->n_files]);
	return MIN(r, 0);
}

/* Whether a target has ended, or its client may not profile it any more. */
static bool target_is_lost(const struct captures *s, const struct capture *c,
			   struct attach_target *t)
{
	char text[192] = "it may not be captured at this level any more";
	unsigned kinds = 0;
	int r = decide(s, c, t->pid, &kinds, text, sizeof(text));

	if (pidfd_ended(t->pidfd)) /* they may be facts of another process */
		return true;
	if (r == 0 && t->used & ~kinds)
		r = -EACCES;
	if (r == -EMFILE || r == -ENFILE)
		snprintf(text, sizeof(text), "who it is cannot be read: %s", strerror(-r));
	if (r == -EACCES || r == -EMFILE || r == -ENFILE)
		s->options.lost((uint32_t)(c - s->captures), t->pid, text, s->options.data);
	t->kinds = kinds;
	return r < 0;
}

static void check_capture(struct captures *s, struct capture *c)
{
	for (unsigned i = 0; i < c->n_targets; i++)
		if (!c->targets[i].is_gone && target_is_lost(s, c, &c->targets[i]))
			forget_target(s, c, &c->targets[i], false);
}

void captures_check(struct captures *s)
{
	for (unsigned i = 0; i < BROKER_MAX_CAPTURES; i++)
		if (s->captures[i].attachment)
			check_capture(s, &s->captures[i]);
}

void captures_executed(struct captures *s, pid_t pid)
{
	for (unsigned i = 0; i < BROKER_MAX_CAPTURES; i++)
		for (unsigned k = 0; s->captures[i].attachment && k < s->captures[i].n_targets; k++)
			if (s->captures[i].targets[k].pid == pid &&
			    !s->captures[i].targets[k].is_gone) {
				/* The record of the exec itself is still to come, unless no client
				 * may see it. */
				forget(s, &s->captures[i], pid,
				       !target_is_lost(s, &s->captures[i],
						       &s->captures[i].targets[k]));
				break;
			}
}

void captures_exited(struct captures *s, pid_t pid)
{
	for (unsigned i = 0; i < BROKER_MAX_CAPTURES; i++)
		for (unsigned k = 0; s->captures[i].attachment && k < s->captures[i].n_targets; k++)
			if (s->captures[i].targets[k].pid == pid)
				s->captures[i].targets[k].ends = true;
}

bool captures_forget_ended(struct captures *s)
{
	bool more = false;

	for (unsigned i = 0; i < BROKER_MAX_CAPTURES; i++) {
		struct capture *c = &s->captures[i];

		for (unsigned k = 0; c->attachment && k < c->n_targets; k++) {
			struct attach_target *t = &c->targets[k];

			/* The last switch of the process is still to come; nothing of a later one
			 * with its id is recorded. */
			if (!t->ends || t->is_gone)
				continue;
			if (pidfd_ended(t->pidfd))
				forget_target(s, c, t, true);
			else
				more = true;
		}
	}
	return more;
}

bool captures_drop_programs(struct captures *s)
{
	bool loads = false;

	for (unsigned i = 0; i < BROKER_MAX_CAPTURES; i++)
		loads |= detacher_is_loading(&s->captures[i].detacher);
	return programs_drop(s->programs, loop_now()) || loads;
}

bool captures_are_none(const struct captures *s)
{
	for (unsigned i = 0; i < BROKER_MAX_CAPTURES; i++)
		if (s->captures[i].attachment)
			return false;
	return true;
}

/* An error of the kernel is not the fault of the request. */
static int host_error(int error)
{
	return error == -EINVAL || error == -ENOTSUP || error == -ENOENT || error == -EACCES
		       ? -EOPNOTSUPP
		       : error;
}

int captures_attach(struct captures *s, struct broker_message *m)
{
	struct capture *c = capture_get(s, m->id);
	const char *reason = NULL;
	struct refused refused;
	int r;

	if (!c)
		return -EINVAL;
	/* A process id that was reused must not be attached to: its sites are left out. */
	check_capture(s, c);
	r = attachment_attach(c->attachment, &refused, &reason);
	if (!c->resumes)
		close_files(c);
	for (unsigned i = 0; i < refused.n_links; i++)
		detacher_take(&c->detacher, refused.links[i]);
	m->index = 0;
	for (unsigned i = 0; i < c->n_targets; i++)
		for (unsigned k = 0; k < refused.n; k++)
			if (c->targets[i].pid == refused.pids[k] && !c->targets[i].is_gone) {
				m->index |= 1u << i;
				forget(s, c, refused.pids[k], false);
			}
	if (r < 0)
		return FAIL(m, host_error(r), "%s (%s)", reason ?: "cannot attach", strerror(-r));
	m->kinds = refused.kinds;
	check_capture(s, c);
	m->count = attachment_links(c->attachment);
	return 0;
}

int captures_forget(struct captures *s, const struct broker_message *m)
{
	struct capture *c = capture_get(s, m->id);

	if (!c || m->index >= c->n_targets)
		return -EINVAL;
	if (!c->targets[m->index].is_gone)
		forget(s, c, c->targets[m->index].pid, false);
	return 0;
}

int captures_name_threads(struct captures *s, struct broker_message *m)
{
	struct capture *c = capture_get(s, m->id);

	if (!c)
		return -EINVAL;
	m->count = (uint32_t)MIN(attachment_skipped(c->attachment), (uint64_t)UINT32_MAX);
	return attachment_name_threads(c->attachment);
}

int captures_shed(struct captures *s, const struct broker_message *m)
{
	struct capture *c = capture_get(s, m->id);
	struct detached *links;
	int r;

	if (!c || m->kind >= KIND_COUNT)
		return -EINVAL;
	r = attachment_shed(c->attachment, (enum probe_kind)m->kind, &links);
	if (r >= 0)
		detacher_take(&c->detacher, links);
	return r;
}

int captures_resume(struct captures *s, struct broker_message *m)
{
	struct capture *c = capture_get(s, m->id);
	struct detached *links;
	int r;

	if (!c || m->kind >= KIND_COUNT || !(c->resumes & 1u << m->kind))
		return -EINVAL;
	/* Both probes at one place would record everything twice. */
	if (detacher_is_busy(&c->detacher))
		return -EAGAIN;
	/* As before captures_attach(). */
	check_capture(s, c);
	r = attachment_resume(c->attachment, (enum probe_kind)m->kind, &links);
	if (links)
		detacher_take(&c->detacher, links);
	return r < 0 ? FAIL(m, host_error(r), "cannot attach again (%s)", strerror(-r)) : 0;
}

int captures_module(struct captures *s, struct broker_message *m, int *ret_fd)
{
	struct capture *c = capture_get(s, m->id);
	const struct attach_target *t = c && m->index < c->n_targets ? &c->targets[m->index] : NULL;
	unsigned kinds;
	uid_t owner;
	int fd, r;

	_Static_assert(sizeof(m->name) == MODULE_NAME_MAX, "names of files");
	m->name[sizeof(m->name) - 1] = 0;
	if (!t)
		return -EINVAL;
	r = identity_of_process(t->pid, &owner);
	if (r < 0)
		return r;
	fd = module_open_next(t->pid, owner, m->name, m->text, sizeof(m->text));
	/* While that process lives its id is not reused; and it must not have become another user's
	 * program. */
	if (decide(s, c, t->pid, &kinds, m->text, sizeof(m->text)) < 0 || pidfd_ended(t->pidfd)) {
		safe_close(fd);
		return -ESRCH;
	}
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

int captures_end(struct captures *s, const struct broker_message *m)
{
	struct capture *c = m->id < BROKER_MAX_CAPTURES ? &s->captures[m->id] : NULL;

	if (!c || !c->is_used)
		return -EINVAL;
	end_capture(c, c->client == BROKER_DAEMON ? 0 : s->options.keep_ns);
	c->is_used = false;
	return 0;
}

int captures_count(const struct captures *s, uint32_t id, struct capture_counts *ret)
{
	int fds[BROKER_MAX_FDS];

	if (id >= BROKER_MAX_CAPTURES || !s->captures[id].attachment)
		return -EINVAL;
	counts_read(fds, attachment_fds(s->captures[id].attachment, fds), ret);
	return 0;
}
