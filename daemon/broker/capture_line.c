/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/capture_line.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "daemon/broker/channel.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

/* More than these at once: every target is checked. */
#define REPORTS_MAX 256
/* While the first thread of a target has ended, and others have not. */
#define ENDING_MS 20
/* While programs wait for a next capture. */
#define DROP_MS 500

struct capture_line {
	struct capture_line_options options;
	struct captures *captures;
	struct snapshots *snapshots;
	/* Of the captures: random, so that those of an earlier broker are unknown to this one. */
	uint32_t first_id;
	struct doctor doctor;
	pthread_t thread;
	int wake; /* eventfd */
	/* The main thread's part, with the lock held. */
	pthread_mutex_t lock;
	struct report {
		pid_t pid;
		bool exited; /* else it executed a program */
	} reports[REPORTS_MAX];
	unsigned n_reports;
	bool check, check_clients, has_triggers;
	struct trigger_names triggers; /* new ones */
	bool is_idle;                  /* there is no capture; atomic */
};

static int on_capture(struct capture_line *l, struct broker_message *m, int *ret_fds,
		      unsigned *ret_n_fds)
{
	struct authority_peer peer;
	int r = l->options.client(m->id, &peer, l->options.data);

	if (r >= 0)
		r = doctor_check(&l->doctor, m->text, sizeof(m->text));
	return r < 0 ? r : captures_begin(l->captures, &peer, m, ret_fds, ret_n_fds);
}

static int on_end(struct capture_line *l, const struct broker_message *m)
{
	struct capture_counts counts;

	if (captures_count(l->captures, m->id, &counts) == 0)
		audit_count(l->options.audit, m->id, &counts);
	return captures_end(l->captures, m);
}

/* The user of all processes of a capture of the daemon's own, who may have what it recorded; -1:
 * there is no such user. */
static uid_t reader_of(struct capture_line *l, uint32_t id)
{
	pid_t pids[RECORD_MAX_TARGETS], again[RECORD_MAX_TARGETS];
	uint32_t client;
	uid_t uid = (uid_t)-1;
	bool is_root;
	unsigned n;

	if (captures_client(l->captures, id, &client, &is_root) < 0 || client != BROKER_DAEMON)
		return (uid_t)-1;
	n = captures_pids(l->captures, id, pids);
	for (unsigned i = 0; i < n; i++) {
		struct broker_message m = { .id = client, .pid = (uint32_t)pids[i] };

		if (!pids[i] || l->options.may(&m, l->options.data) < 0 || (i && m.uid != uid))
			return (uid_t)-1;
		uid = m.uid;
	}
	/* The owners were read by process id. */
	captures_pids(l->captures, id, again);
	return memcmp(pids, again, n * sizeof(pids[0])) ? (uid_t)-1 : uid;
}

static int on_snapshot_end(struct capture_line *l, struct broker_message *m)
{
	uid_t reader = m->count ? reader_of(l, m->id) : (uid_t)-1;
	int r = snapshots_end(l->snapshots, m, reader);

	if (r == 0 && m->count)
		audit_snapshot(l->options.audit, (pid_t)m->pid, m->name, m->start);
	return r;
}

static int answer_request(struct capture_line *l, struct broker_message *m, int *ret_fds,
			  unsigned *ret_n_fds)
{
	switch (m->type) {
	case BROKER_CAPTURE:
		return on_capture(l, m, ret_fds, ret_n_fds);
	case BROKER_TARGET:
		return captures_target(l->captures, m);
	case BROKER_SITES:
		return l->options.sites(l->captures, m, l->options.data);
	case BROKER_ATTACH:
		return captures_attach(l->captures, m);
	case BROKER_FORGET:
		return captures_forget(l->captures, m);
	case BROKER_NAME_THREADS:
		return captures_name_threads(l->captures, m);
	case BROKER_SHED:
		return captures_shed(l->captures, m);
	case BROKER_RESUME:
		return captures_resume(l->captures, m);
	case BROKER_MODULE:
		*ret_n_fds = 1;
		return captures_module(l->captures, m, &ret_fds[0]);
	case BROKER_END:
		return on_end(l, m);
	case BROKER_CALIBRATE:
		return doctor_calibrate(&l->doctor, m);
	case BROKER_PREFLIGHT:
		return doctor_preflight(&l->doctor, m);
	case BROKER_SNAPSHOT:
		*ret_n_fds = 1;
		return snapshots_begin(l->snapshots, m, &ret_fds[0]);
	case BROKER_SNAPSHOT_END:
		return on_snapshot_end(l, m);
	default:
		return -EOPNOTSUPP;
	}
}

static int serve_capture_request(struct capture_line *l)
{
	int fds[BROKER_MAX_FDS], r;
	struct audit_asked asked;
	struct broker_message m;
	unsigned n_fds = 0, ignored;

	r = channel_receive(l->options.socket, &m, sizeof(m), NULL, 0, &ignored);
	if (r < 0)
		return r;
	m.text[0] = 0;
	if (m.type != BROKER_CAPTURE)
		m.id -= l->first_id;
	asked = (struct audit_asked){ m.type, m.id, m.pid, m.kind };
	m.result = answer_request(l, &m, fds, &n_fds);
	audit_answer(l->options.audit, &asked, &m);
	if (m.result < 0)
		n_fds = 0;
	if (m.type == BROKER_CAPTURE)
		m.id += l->first_id;
	r = channel_answer(l->options.socket, &m, sizeof(m), fds, n_fds);
	/* Those of a capture are its own. */
	if (m.type == BROKER_MODULE && n_fds)
		close(fds[0]);
	return r;
}

/* Captures end with the authority of their clients. */
static void end_revoked(struct capture_line *l)
{
	for (uint32_t i = 0; i < BROKER_MAX_CAPTURES; i++) {
		struct capture_counts counts;
		struct authority_peer peer;
		uint32_t client;
		bool is_root;

		if (captures_client(l->captures, i, &client, &is_root) < 0 ||
		    (l->options.client(client, &peer, l->options.data) == 0 &&
		     (peer.is_root || !is_root)))
			continue;
		if (captures_count(l->captures, i, &counts) == 0)
			audit_count(l->options.audit, i, &counts);
		captures_revoke(l->captures, i);
	}
}

/* What the main thread has reported. */
static void serve_reports(struct capture_line *l)
{
	struct report reports[REPORTS_MAX];
	unsigned n;
	bool check, check_clients, has_triggers;
	struct trigger_names triggers;
	uint64_t ignored;

	if (read(l->wake, &ignored, sizeof(ignored)) < 0)
		return;
	pthread_mutex_lock(&l->lock);
	has_triggers = l->has_triggers;
	triggers = l->triggers;
	l->has_triggers = false;
	n = l->n_reports;
	memcpy(reports, l->reports, n * sizeof(reports[0]));
	check = l->check;
	l->n_reports = 0;
	check_clients = l->check_clients;
	l->check = l->check_clients = false;
	pthread_mutex_unlock(&l->lock);
	/* It reads a directory: the main thread must not wait for that. */
	if (has_triggers)
		snapshots_set_triggers(l->snapshots, &triggers);
	for (unsigned i = 0; i < n; i++)
		if (reports[i].exited)
			captures_exited(l->captures, reports[i].pid);
		else
			captures_executed(l->captures, reports[i].pid);
	if (check_clients)
		end_revoked(l);
	if (check)
		captures_check(l->captures);
}

static void *run(void *data)
{
	struct capture_line *l = data;
	int r = 0;

	while (r >= 0) {
		struct pollfd p[] = { { .fd = l->wake, .events = POLLIN },
				      { .fd = l->options.socket, .events = POLLIN } };

		bool ending = captures_forget_ended(l->captures);
		bool waiting = captures_drop_programs(l->captures);

		__atomic_store_n(&l->is_idle, captures_are_none(l->captures), __ATOMIC_RELAXED);
		if (poll(p, ARRAY_SIZE(p), ending ? ENDING_MS : waiting ? DROP_MS : -1) < 0)
			r = errno == EINTR ? 0 : -errno;
		else if (p[0].revents)
			serve_reports(l);
		else if (p[1].revents)
			r = serve_capture_request(l);
	}
	if (r != -EPIPE)
		log_error_errno(r, "cannot serve captures any more: %m");
	/* The front then learns that nothing is captured any more. */
	shutdown(l->options.socket, SHUT_RDWR);
	return NULL;
}

static int may_profile(struct broker_message *m, void *data)
{
	struct capture_line *l = data;

	return l->options.may(m, l->options.data);
}

static void on_lost(uint32_t id, pid_t pid, const char *reason, void *data)
{
	struct capture_line *l = data;

	audit_lost_target(l->options.audit, id, pid, reason);
}

int capture_line_new(const struct capture_line_options *options, struct capture_line **ret)
{
	struct capture_line *l = calloc(1, sizeof(*l));
	struct captures_options captures = { .mode = options->mode,
					     .state = options->state,
					     .user_ring_bytes = options->user_ring_bytes,
					     .keep_ns = options->keep_ns,
					     .may = may_profile,
					     .lost = on_lost,
					     .data = l };
	int r;

	if (!l)
		return -ENOMEM;
	l->options = *options;
	pthread_mutex_init(&l->lock, NULL);
	l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->wake >= 0 && getrandom(&l->first_id, sizeof(l->first_id), 0) != sizeof(l->first_id))
		l->wake = safe_close(l->wake);
	r = l->wake < 0 ? -errno : captures_new(&captures, &l->captures);
	if (r >= 0)
		r = snapshots_new(&options->snapshots, &l->snapshots);
	if (r >= 0) {
		l->doctor = (struct doctor){ .mode = options->mode,
					     .sideband = options->sideband,
					     .bpf = options->bpf,
					     .programs = captures_programs(l->captures) };
		r = -pthread_create(&l->thread, NULL, run, l);
	}
	if (r < 0) {
		snapshots_free(l->snapshots);
		captures_free(l->captures);
		safe_close(l->wake);
		pthread_mutex_destroy(&l->lock);
		free(l);
		return r;
	}
	*ret = l;
	return 0;
}

struct capture_line *capture_line_free(struct capture_line *l)
{
	if (!l)
		return NULL;
	shutdown(l->options.socket, SHUT_RDWR);
	pthread_join(l->thread, NULL);
	captures_free(l->captures);
	snapshots_free(l->snapshots);
	close(l->options.socket);
	close(l->wake);
	pthread_mutex_destroy(&l->lock);
	free(l);
	return NULL;
}

static void wake(struct capture_line *l)
{
	if (write(l->wake, &(uint64_t){ 1 }, sizeof(uint64_t)) < 0)
		log_debug("cannot wake the thread of captures: %m");
}

static void report(struct capture_line *l, const struct report *report)
{
	/* One that begins now looks at its targets after it has their descriptors. */
	if (__atomic_load_n(&l->is_idle, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&l->lock);
	if (l->n_reports < REPORTS_MAX)
		l->reports[l->n_reports++] = *report;
	else
		l->check = true;
	pthread_mutex_unlock(&l->lock);
	wake(l);
}

void capture_line_executed(struct capture_line *l, pid_t pid)
{
	report(l, &(struct report){ .pid = pid });
}

void capture_line_exited(struct capture_line *l, pid_t pid)
{
	report(l, &(struct report){ .pid = pid, .exited = true });
}

void capture_line_check(struct capture_line *l)
{
	pthread_mutex_lock(&l->lock);
	l->check = true;
	pthread_mutex_unlock(&l->lock);
	wake(l);
}

void capture_line_client_gone(struct capture_line *l)
{
	pthread_mutex_lock(&l->lock);
	l->check_clients = true;
	pthread_mutex_unlock(&l->lock);
	wake(l);
}

void capture_line_set_triggers(struct capture_line *l, const struct trigger_names *triggers)
{
	pthread_mutex_lock(&l->lock);
	l->triggers = *triggers;
	l->has_triggers = true;
	pthread_mutex_unlock(&l->lock);
	wake(l);
}
