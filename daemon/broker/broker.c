/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/broker/audit.h"
#include "daemon/broker/capture_line.h"
#include "daemon/broker/channel.h"
#include "daemon/broker/clients.h"
#include "daemon/broker/doctor/preflight.h"
#include "daemon/broker/files.h"
#include "daemon/broker/kernel/capabilities.h"
#include "daemon/broker/kernel/libbpf_log.h"
#include "daemon/broker/kernel/repair.h"
#include "daemon/broker/mappings.h"
#include "daemon/broker/watch/births.h"
#include "daemon/broker/watch/sideband.h"
#include "daemon/broker/watch/watch.h"
#include "daemon/sandbox/sandbox.h"
#include "include/record_types.h"
#include "lib/base/log.h"
#include "lib/base/loop.h"
#include "lib/base/macro.h"

/* The interval at which the side-band is read and events that did not reach the front are sent
 * again. */
#define ROUND_MS 200
#define HURRIED_ROUND_MS 50
/* How often the processes of captures and the clients are checked, whatever the kernel reports of
 * them. */
#define CHECK_NS 1000000000ull
/* Descriptors of links are lower. */
#define SOCKETS_FROM (16384 - 8)

struct broker {
	int requests, events;
	const struct listener *listeners;
	unsigned n_listeners;
	const char *const *reload_files;
	enum attach_mode mode;
	struct sideband *sideband; /* NULL: there is none */
	struct watch *watch;
	struct births *births;
	/* Requests that the front has not received yet. */
	bool stop, reload;
	pthread_mutex_t lock; /* of the clients */
	struct clients *clients;
	struct files *files;
	struct capture_line *captures;
	struct audit *audit;
	int notes;
};

static int on_accept(struct broker *b, struct broker_message *m, int *ret_fd)
{
	int r = m->index < b->n_listeners
			? clients_accept(b->clients, &b->listeners[m->index], m, ret_fd)
			: -EINVAL;

	if (r == 0)
		audit_client(b->audit, m->id, m->uid, *ret_fd);
	return r;
}

static int on_return(struct broker *b, const struct broker_message *m, int connection)
{
	int r = connection < 0 ? -EINVAL : clients_return(b->clients, m->id, connection);
	const struct caller *caller = r == 0 ? clients_caller(b->clients, m->id) : NULL;

	if (caller)
		audit_client(b->audit, m->id, caller->uid, connection);
	return r;
}

static int on_certify(struct broker *b, struct broker_message *m)
{
	int r = clients_certify(b->clients, m);

	if (r == 0)
		audit_client(b->audit, m->id, m->peer.uid, -1);
	return r;
}

static int on_listen(struct broker *b, const struct broker_message *m)
{
	if (m->index >= b->n_listeners)
		return -EINVAL;
	return m->type == BROKER_LISTEN ? listener_open(b->listeners[m->index].fd)
					: listener_close(b->listeners[m->index].fd);
}

static int on_maps(struct broker_message *m, int *ret_fd)
{
	uid_t uid;
	int fd = mappings_list((pid_t)m->pid, &uid);

	if (fd < 0)
		return fd;
	m->uid = uid;
	*ret_fd = fd;
	return 0;
}

static int on_notify(struct broker *b, const struct broker_message *m)
{
	const uint8_t state = (uint8_t)m->index;

	if (m->index > BROKER_STATE_ALIVE)
		return -EINVAL;
	return write(b->notes, &state, 1) == 1 ? 0 : -errno;
}

static int on_open(struct broker *b, struct broker_message *m)
{
	int r = files_open(b->files, m);

	if (r >= 0)
		watch_add(b->watch, (pid_t)m->pid, loop_now());
	return r;
}

/* The functions of struct capture_line_options, called in its thread. */
static int get_peer(uint32_t id, struct authority_peer *ret, void *data)
{
	struct broker *b = data;
	int r;

	pthread_mutex_lock(&b->lock);
	r = clients_peer(b->clients, id, ret);
	pthread_mutex_unlock(&b->lock);
	return r;
}

static int may(struct broker_message *m, void *data)
{
	struct broker *b = data;
	int r;

	pthread_mutex_lock(&b->lock);
	r = clients_may(b->clients, m);
	pthread_mutex_unlock(&b->lock);
	return r;
}

static int on_sites(struct captures *captures, struct broker_message *m, void *data)
{
	struct broker *b = data;

	return files_sites(b->files, captures, m);
}

/* fd: what came with the request, -1: nothing. */
static int dispatch(struct broker *b, struct broker_message *m, int fd, int *ret_fds,
		    unsigned *ret_n_fds)
{
	switch (m->type) {
	case BROKER_ACCEPT:
		*ret_n_fds = 1;
		return on_accept(b, m, &ret_fds[0]);
	case BROKER_LISTEN:
	case BROKER_UNLISTEN:
		return on_listen(b, m);
	case BROKER_CLIENT_GONE:
		return clients_remove(b->clients, m->id);
	case BROKER_RETURN:
		return on_return(b, m, fd);
	case BROKER_CERTIFY:
		return on_certify(b, m);
	case BROKER_MAY:
		return clients_may(b->clients, m);
	case BROKER_PEER:
		return clients_describe(b->clients, m);
	case BROKER_MAPS:
		*ret_n_fds = 1;
		return on_maps(m, &ret_fds[0]);
	case BROKER_OPEN:
		return on_open(b, m);
	case BROKER_PLAN:
		return files_plan(b->files, m, &ret_fds[0], ret_n_fds);
	case BROKER_FUNCTIONS:
		return files_functions(b->files, m, fd, &ret_fds[0], ret_n_fds);
	case BROKER_CLOSE:
		return files_close(b->files, m);
	case BROKER_BIRTH:
		m->birth = births_get(b->births, (pid_t)m->pid);
		return 0;
	case BROKER_MODE:
		m->index = b->mode;
		return 0;
	case BROKER_NOTIFY:
		return on_notify(b, m);
	default:
		return -EOPNOTSUPP;
	}
}

/* Whether the broker closes the descriptors that an answer passed on. */
static bool answer_owns_fds(uint32_t type)
{
	return type == BROKER_MAPS || type == BROKER_ACCEPT;
}

static int serve_request(struct broker *b)
{
	int fds[BROKER_MAX_FDS], received = -1, r;
	struct audit_asked asked;
	struct broker_message m;
	unsigned n_fds = 0, n_received;

	r = channel_receive(b->requests, &m, sizeof(m), &received, 1, &n_received);
	if (r < 0)
		return r;
	m.text[0] = 0;
	asked = (struct audit_asked){ m.type, m.id, m.pid, m.kind };
	pthread_mutex_lock(&b->lock);
	m.result = dispatch(b, &m, n_received ? received : -1, fds, &n_fds);
	pthread_mutex_unlock(&b->lock);
	if (n_received)
		close(received);
	audit_answer(b->audit, &asked, &m);
	if (m.result < 0)
		n_fds = 0;
	r = channel_answer(b->requests, &m, sizeof(m), fds, n_fds);
	for (unsigned i = 0; answer_owns_fds(m.type) && i < n_fds; i++)
		close(fds[i]);
	return r;
}

/* Never waits for a front that does not keep up; false: the event was not sent. */
static bool send_event(struct broker *b, enum broker_event_type type, pid_t pid)
{
	struct broker_event event = { .type = type, .pid = (uint32_t)pid };

	return send(b->events, &event, sizeof(event), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 ||
	       errno != EAGAIN;
}

/* As send_event(). The front may read no file of root, but it gets the content of those that root
 * configured. */
static bool send_reload(struct broker *b)
{
	struct broker_event event = { .type = BROKER_EVENT_RELOAD };
	int fds[BROKER_RELOAD_COUNT], r;
	unsigned n = 0;

	for (unsigned i = 0; i < BROKER_RELOAD_COUNT; i++) {
		if (!*b->reload_files[i])
			continue;
		fds[n] = open(b->reload_files[i], O_RDONLY | O_CLOEXEC | O_NOCTTY);
		if (fds[n] < 0)
			log_warning("cannot read %s: %m", b->reload_files[i]);
		else
			event.files |= 1u << i, n++;
	}
	r = channel_send(b->events, &event, sizeof(event), fds, n);
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
	return r != -EAGAIN;
}

static void send_pending(struct broker *b)
{
	uint64_t now = loop_now();
	pid_t pid;

	if (b->stop && send_event(b, BROKER_EVENT_STOP, 0))
		b->stop = false;
	if (b->reload && send_reload(b)) {
		const uint8_t state = BROKER_STATE_RELOADED;

		b->reload = false;
		if (write(b->notes, &state, 1) != 1)
			log_debug("the supervisor does not learn of the reload: %m");
	}
	if (watch_wants_rescan(b->watch, now) && send_event(b, BROKER_EVENT_RESCAN, 0))
		watch_rescanned(b->watch, now);
	while ((pid = watch_next(b->watch)) && send_event(b, BROKER_EVENT_LOOK, pid))
		watch_reported(b->watch);
}

/* Whether a process lives on after its first thread ended: its task directory has a link for each
 * thread, and two more. */
static bool has_threads(pid_t pid)
{
	struct stat st;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	return stat(path, &st) == 0 && st.st_nlink > 3;
}

static void on_sideband(const struct sideband_event *event, void *data)
{
	struct broker *b = data;

	/* What is attached stays attached through an exec, but then reports on another program,
	 * perhaps another user's. */
	if (event->kind == SIDEBAND_EXECUTED) {
		capture_line_executed(b->captures, event->pid);
		if (watch_knows(b->watch, event->pid, loop_now()) &&
		    !send_event(b, BROKER_EVENT_EXECUTED, event->pid))
			watch_lost(b->watch);
	} else if (event->kind == SIDEBAND_EXITED) {
		capture_line_exited(b->captures, event->pid);
	}
	watch_event(b->watch, event, loop_now());
	births_event(b->births, event);
}

int broker_check_host(char *ret_text, unsigned size)
{
	struct host_facts host = { .sideband = true };
	const struct broker_finding *error;
	struct findings findings = {};
	int mode;

	libbpf_log_setup();
	mode = attach_mode_find();
	host.mode = mode < 0 ? ATTACH_MULTI : (enum attach_mode)mode;
	host_facts_find(&host);
	bpf_facts_find(&host.bpf);
	preflight_judge_host(&host, &findings);
	error = preflight_error(&findings);
	if (error)
		preflight_describe(error, ret_text, size);
	return error ? -EOPNOTSUPP : 0;
}

/* With the lock held. */
static void on_client_gone(uint32_t id, void *data)
{
	struct broker *b = data;

	if (b->captures)
		capture_line_client_gone(b->captures);
}

static int start_captures(struct broker *b, const struct broker_options *options,
			  const struct bpf_facts *bpf)
{
	struct capture_line_options line = { .socket = options->captures,
					     .mode = b->mode,
					     .state = options->state,
					     .user_ring_bytes = options->user_ring_bytes,
					     .keep_ns = options->keep_ns,
					     .audit = b->audit,
					     .snapshots = options->snapshots,
					     .sideband = b->sideband,
					     .bpf = *bpf,
					     .client = get_peer,
					     .may = may,
					     .sites = on_sites,
					     .data = b };

	return capture_line_new(&line, &b->captures);
}

static int start_clients(struct broker *b, const struct broker_options *options)
{
	int r = clients_new(
		&(struct clients_options){ .memory = options->clients,
					   .authority = options->authority,
					   .connections = options->connections,
					   .captures_on_its_own = options->captures_on_its_own,
					   .certificates = options->certificates,
					   .gone = on_client_gone,
					   .data = b },
		&b->clients);

	return r < 0 ? log_error_errno(r, "cannot identify clients: %m") : 0;
}

/* Of a process that is killed the kernel closes the highest descriptor first, and those of links
 * take up to a second together: by these sockets the others learn of the end before. */
static void move_above_links(struct broker_options *o)
{
	int *const sockets[] = { &o->requests, &o->captures, &o->events, &o->prover, &o->notes };
	struct rlimit files;

	/* For the files, programs, maps and links of several captures. */
	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	for (unsigned i = 0; i < ARRAY_SIZE(sockets); i++) {
		int moved = fcntl(*sockets[i], F_DUPFD_CLOEXEC,
				  (int)MIN(files.rlim_max / 2, SOCKETS_FROM));

		if (moved < 0)
			continue;
		close(*sockets[i]);
		*sockets[i] = moved;
	}
}

static int broker_setup(struct broker *b, const struct broker_options *options)
{
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	struct bpf_facts bpf;
	int r;

	libbpf_log_setup();
	pthread_mutex_init(&b->lock, NULL);
	b->requests = options->requests;
	b->events = options->events;
	b->listeners = options->listeners;
	b->n_listeners = options->n_listeners;
	b->reload_files = options->reload;
	b->notes = options->notes;
	/* Before the network is dropped. */
	r = start_clients(b, options);
	if (r < 0)
		return r;
	bpf_facts_find(&bpf);
	/* Kernels before 5.11 charge BPF memory to this limit. */
	if (setrlimit(RLIMIT_MEMLOCK, &unlimited) < 0)
		log_debug("cannot raise RLIMIT_MEMLOCK: %m");
	if (unshare(CLONE_NEWNET) < 0)
		log_warning(
			"cannot leave the network namespace (%m); continuing with network access");
	r = attach_mode_find();
	if (r < 0)
		return log_error_errno(r, "cannot use BPF: %m");
	b->mode = options->perf_event_uprobes ? ATTACH_PERF_EVENT : (enum attach_mode)r;
	if (b->mode == ATTACH_PERF_EVENT)
		log_warning("%s: probes are perf events, and CAP_SYS_ADMIN is kept for them",
			    options->perf_event_uprobes ? "probe-links = perf-event is configured"
							: "this kernel has no uprobe_multi links");
	/* Debian's kernels require CAP_SYS_ADMIN to open these events (perf_event_paranoid 3): the
	 * broker still has it here. */
	r = sideband_new(&b->sideband);
	if (r < 0)
		log_warning_errno(
			r,
			"cannot watch for new processes (%m); they are found only when a client lists targets");
	r = capabilities_keep(b->mode == ATTACH_PERF_EVENT, &options->user);
	if (r < 0)
		return log_error_errno(r, "cannot drop privileges: %m");
	r = audit_new(options->state, &b->audit);
	if (r < 0)
		return r;
	r = files_new(options->prover, options->state, &b->files);
	if (r < 0)
		return r;
	r = sandbox_broker(
		(int[]){ options->state, files_directory(b->files), options->snapshots.directory },
		3);
	if (r < 0)
		return r;
	repair_processes(b->mode, options->state, options->predecessor);
	r = start_captures(b, options, &bpf);
	if (r < 0)
		return log_error_errno(r, "cannot start: %m");
	r = watch_new(has_threads, &b->watch);
	if (r >= 0)
		r = births_new(&b->births);
	if (r < 0)
		return log_error_errno(r, "cannot start: %m");
	if (b->sideband)
		sideband_start(b->sideband);
	return 0;
}

/* Blocks the signals that end the daemon, and returns a descriptor that reports them. */
static int watch_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* The rules that the supervisor sent before the signal. */
static void take_rules(struct broker *b)
{
	struct broker_rules rules;
	ssize_t n;

	while ((n = recv(b->notes, &rules, sizeof(rules), MSG_DONTWAIT | MSG_TRUNC)) > 0)
		if (n == sizeof(rules) && authority_is_valid(&rules.access) &&
		    trigger_names_are_valid(&rules.triggers)) {
			clients_renew(b->clients, &rules.access);
			capture_line_set_triggers(b->captures, &rules.triggers);
		} else {
			log_error(
				"the rules of access and the triggers remain unchanged: they cannot be used");
		}
}

static void on_signal(struct broker *b, int signals)
{
	struct signalfd_siginfo info;

	if (read(signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP) {
		pthread_mutex_lock(&b->lock);
		take_rules(b);
		clients_reload(b->clients);
		pthread_mutex_unlock(&b->lock);
		/* Also what runs. */
		capture_line_client_gone(b->captures);
		capture_line_check(b->captures);
		b->reload = true;
	} else {
		b->stop = true;
	}
}

static void update_clients(struct broker *b, bool every)
{
	pthread_mutex_lock(&b->lock);
	clients_update(b->clients, every);
	pthread_mutex_unlock(&b->lock);
}

int broker_run(const struct broker_options *given)
{
	struct broker *b = calloc(1, sizeof(*b));
	struct broker_options copy = *given, *const options = &copy;
	_cleanup_close_ int signals = -1;
	uint64_t checked = 0;
	int r;

	if (!b)
		return -ENOMEM;
	move_above_links(options);
	signals = watch_signals();
	r = signals < 0 ? signals : broker_setup(b, options);
	while (r == 0) {
		struct pollfd p[5 + PLANNER_POLLS] = {
			{ .fd = b->requests, .events = POLLIN },
			{ .fd = signals, .events = POLLIN },
			{ .fd = b->sideband ? sideband_fd(b->sideband) : -1, .events = POLLIN },
			{ .fd = b->events, .events = POLLIN },
			{ .fd = clients_fd(b->clients), .events = POLLIN },
		};
		unsigned n = 5 + files_poll(b->files, p + 5);
		bool is_due;

		if (poll(p, n, options->reports_early ? HURRIED_ROUND_MS : ROUND_MS) < 0 &&
		    errno != EINTR)
			r = -errno;
		if (p[1].revents)
			on_signal(b, signals);
		is_due = loop_now() - checked > CHECK_NS;
		if (is_due)
			checked = loop_now();
		if (p[4].revents || is_due)
			update_clients(b, is_due);
		/* Before the requests: who a client is precedes what it does. */
		if (p[3].revents)
			audit_read_notes(b->audit, b->events);
		if (p[0].revents)
			r = serve_request(b);
		audit_tick(b->audit, loop_now());
		if (b->sideband && sideband_read(b->sideband, on_sideband, b)) {
			watch_lost(b->watch);
			is_due = true;
		}
		if (is_due)
			capture_line_check(b->captures);
		r = MIN(r, files_work(b->files));
		send_pending(b);
	}
	/* The probes are gone once the daemon has ended. */
	capture_line_free(b->captures);
	clients_free(b->clients);
	audit_free(b->audit);
	files_free(b->files);
	sideband_free(b->sideband);
	watch_free(b->watch);
	births_free(b->births);
	free(b);
	return r == -EPIPE ? 0 : r;
}
