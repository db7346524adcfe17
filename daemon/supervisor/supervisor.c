/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/supervisor/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "daemon/broker/clients.h"
#include "daemon/rpc/service.h"
#include "daemon/supervisor/notify.h"
#include "daemon/supervisor/settings.h"
#include "lib/base/log.h"
#include "lib/base/loop.h"
#include "lib/base/macro.h"

/* A role that fails this soon after its start would fail again. */
#define SOON_NS 1000000000ull
/* More restarts within the time, and the daemon ends. */
#define RESTARTS_MAX 10
#define RESTARTS_NS 10000000000ull
/* A broker that has closed its sockets ends within this time, unless it was killed with probes. */
#define ENDS_MS 50

struct supervisor {
	struct roles_options *options;
	struct broker_role role; /* a process that has ended is 0; .notes is -1 without a broker */
	pid_t front;
	/* A broker that was killed and whose probes the kernel still detaches: another one serves
	 * beside it. 0: none. */
	pid_t leaving;
	int signals; /* signalfd */
	bool stopping;
	/* The broker has not heard of it; the broker has, and the front may have not. */
	bool reload_pending, reload_passed;
	/* Of the roles that have ended and are not replaced yet. */
	bool any_killed, any_failed;
	/* The broker has ended because the prover had: how that one ended is still to be read. */
	bool lost_prover;
	uint64_t closed_ns;              /* when the broker closed its sockets; 0: it serves */
	uint64_t started_ns;             /* the latest start of a role */
	uint64_t restarts[RESTARTS_MAX]; /* a ring: when */
	unsigned n_restarts;
};

static int start_broker(struct supervisor *s)
{
	s->started_ns = loop_now();
	s->closed_ns = 0;
	safe_close(s->role.notes);
	s->role = (struct broker_role){ .notes = -1 };
	return roles_start_broker(s->options, &s->role);
}

static int start_all(struct supervisor *s)
{
	struct roles_options *o = s->options;
	int r;

	/* They start with the configuration of now. */
	s->reload_pending = s->reload_passed = false;
	/* No client of an earlier front is left. */
	safe_close(o->clients);
	o->clients = clients_memory_new();
	if (o->clients < 0)
		return o->clients;
	r = start_broker(s);
	if (r >= 0)
		r = roles_start_front(o, &s->role, &o->line, &s->front);
	o->front.ready = safe_close(o->front.ready);
	return r;
}

/* The broker decides by these rules from now on, and makes the front read the rest. */
static void pass_reload_on(struct supervisor *s)
{
	struct broker_rules rules;

	if (!s->role.broker || !s->reload_pending)
		return;
	roles_rules(s->options->front.config, &rules);
	if (send(s->role.notes, &rules, sizeof(rules), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
		kill(s->role.broker, SIGHUP);
		s->reload_pending = false;
		s->reload_passed = true;
	} else if (errno != EAGAIN && errno != EPIPE && errno != ECONNRESET && errno != EBADF) {
		log_error("the broker and the front do not get the new configuration: %m");
		s->reload_pending = false;
	}
}

static int start_another_broker(struct supervisor *s)
{
	int r = start_broker(s);

	/* A front that cannot take them ends, and this broker with it. */
	if (r >= 0 && roles_hand_over(s->options->line, &s->role.lines) < 0)
		log_debug("the front does not take another broker");
	if (r >= 0)
		pass_reload_on(s);
	return r;
}

static bool has_failed(int status)
{
	return WIFEXITED(status) && WEXITSTATUS(status) != EXIT_SUCCESS;
}

static void log_end(const char *role, int status)
{
	if (WIFSIGNALED(status))
		log_error("the %s was ended by a signal: %s%s", role, strsignal(WTERMSIG(status)),
			  WTERMSIG(status) == SIGSYS
				  ? "; it made a system call that it may not make"
				  : "");
	else if (has_failed(status))
		log_error("the %s has failed", role);
}

static void note_end(struct supervisor *s, const char *role, int status)
{
	s->any_killed |= WIFSIGNALED(status);
	s->any_failed |= has_failed(status);
	log_end(role, status);
}

static bool has_ended(pid_t *role, int *ret_status)
{
	if (!*role || waitpid(*role, ret_status, WNOHANG) != *role)
		return false;
	*role = 0;
	return true;
}

/* Processes in which a prover read files and that were its own no longer. */
static void reap_others(const struct supervisor *s)
{
	siginfo_t info = {};

	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid &&
	       info.si_pid != s->role.prover && info.si_pid != s->role.broker &&
	       info.si_pid != s->leaving && info.si_pid != s->front)
		waitpid(info.si_pid, NULL, 0);
}

/* The next one is to be started. */
static void note_end_of_broker(struct supervisor *s)
{
	/* It may have ended before it read them. */
	s->reload_pending |= s->reload_passed;
	s->reload_passed = false;
	s->closed_ns = 0;
	if (s->role.prover && !s->lost_prover)
		kill(s->role.prover, SIGKILL);
}

/* The prover first: its end makes the broker end, which is then not the cause. A broker can see
 * that end, and end itself, before the kernel reports it here. */
static void reap(struct supervisor *s)
{
	int status;

	if (has_ended(&s->role.prover, &status) && (s->role.broker || s->lost_prover))
		note_end(s, "prover", status);
	if (has_ended(&s->role.broker, &status)) {
		s->lost_prover = WIFEXITED(status) && WEXITSTATUS(status) == ROLES_LOST_PROVER;
		note_end(s, "broker", status);
		note_end_of_broker(s);
	}
	if (has_ended(&s->leaving, &status)) {
		log_end("broker", status);
		s->options->leaving = safe_close(s->options->leaving);
	}
	if (has_ended(&s->front, &status)) {
		note_end(s, "front", status);
		s->options->line = safe_close(s->options->line);
	}
	reap_others(s);
}

/* Does not wait for a killed broker until the kernel has detached its probes. */
static void leave(struct supervisor *s)
{
	if (!s->role.broker || !s->closed_ns || s->leaving || s->stopping ||
	    loop_now() - s->closed_ns < ENDS_MS * 1000000ull)
		return;
	s->options->leaving = pidfd_open(s->role.broker, 0);
	/* There are never two that serve. */
	if (s->options->leaving < 0 || kill(s->role.broker, SIGKILL) < 0) {
		s->options->leaving = safe_close(s->options->leaving);
		return;
	}
	s->leaving = s->role.broker;
	s->role.broker = 0;
	s->any_killed = true;
	note_end_of_broker(s);
}

/* Whether a role may be started again now; false: what is wrong does not go away. */
static bool may_restart(struct supervisor *s)
{
	uint64_t now = loop_now(), *earliest = &s->restarts[s->n_restarts % RESTARTS_MAX];

	if (!s->any_killed && now - s->started_ns < SOON_NS)
		return false;
	if (s->n_restarts >= RESTARTS_MAX && now - *earliest < RESTARTS_NS) {
		log_error("%d restarts within %llu s: the daemon ends", RESTARTS_MAX,
			  RESTARTS_NS / 1000000000);
		return false;
	}
	*earliest = now;
	s->n_restarts++;
	return true;
}

/* Replaces what has ended. 1: nothing is left, and nothing is to be started again. */
static int restart(struct supervisor *s)
{
	int r = 0;

	/* There is no other broker to wait for. */
	if (s->stopping && !s->role.broker)
		s->options->line = safe_close(s->options->line);
	/* A broker without its front, or without its prover, ends soon; a front waits. */
	if (s->role.broker || s->role.prover)
		return 0;
	if (s->stopping)
		return s->front ? 0 : 1;
	if (!may_restart(s))
		return -ECHILD;
	log_info("the %s again", s->front ? "broker is started" : "roles are started");
	r = s->front ? start_another_broker(s) : start_all(s);
	if (r < 0)
		return log_error_errno(r, "cannot start them: %m");
	s->any_killed = s->any_failed = s->lost_prover = false;
	return 0;
}

static void on_signal(struct supervisor *s)
{
	struct front_options *front = &s->options->front;
	struct signalfd_siginfo info;

	if (read(s->signals, &info, sizeof(info)) != sizeof(info))
		return;
	switch (info.ssi_signo) {
	case SIGCHLD:
		reap(s);
		break;
	case SIGHUP:
		if (settings_renew(&front->config, &front->tls, front->argc, front->argv) == 0) {
			s->reload_pending = true;
			pass_reload_on(s);
		}
		break;
	default:
		s->stopping = true;
		if (s->role.broker)
			kill(s->role.broker, SIGTERM);
	}
}

/* systemd takes it from the process that it started only. */
static void on_note(struct supervisor *s)
{
	uint8_t state;
	ssize_t n = recv(s->role.notes, &state, sizeof(state), MSG_DONTWAIT);

	if (n == 1 && state == BROKER_STATE_RELOADED)
		s->reload_passed = false;
	else if (n == 1)
		notify_send(s->options->notify, state);
	else if (n == 0 || errno == ECONNRESET) {
		s->role.notes = safe_close(s->role.notes);
		s->closed_ns = loop_now();
	}
}

/* The broker ends by itself and detaches; what does not end is not waited for. */
static void end_roles(struct supervisor *s)
{
	s->options->line = safe_close(s->options->line);
	if (s->front)
		kill(s->front, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	safe_close(s->role.notes);
}

static int watch_signals(void)
{
	sigset_t signals;
	int fd;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

int supervisor_run(struct roles_options *options)
{
	struct supervisor s = { .options = options, .role.notes = -1, .signals = watch_signals() };
	int r = s.signals;

	/* What an ended role leaves is waited for, too. */
	if (r >= 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		r = -errno;
	if (r >= 0)
		r = options->front.ports = service_ports_new();
	if (r >= 0)
		r = start_all(&s);
	if (r < 0)
		log_error_errno(r, "cannot start: %m");
	while (r == 0) {
		struct pollfd p[] = { { .fd = s.signals, .events = POLLIN },
				      { .fd = s.role.notes, .events = POLLIN } };

		if (s.reload_pending)
			p[1].events |= POLLOUT;
		if (poll(p, ARRAY_SIZE(p), s.closed_ns ? ENDS_MS + 1 : -1) < 0)
			continue;
		if (p[1].revents & POLLOUT)
			pass_reload_on(&s);
		if (p[1].revents & ~POLLOUT)
			on_note(&s);
		if (p[0].revents)
			on_signal(&s);
		leave(&s);
		r = restart(&s);
	}
	end_roles(&s);
	safe_close(s.signals);
	safe_close(options->leaving);
	safe_close(options->clients);
	safe_close(options->front.ports);
	if (r > 0 && (s.any_failed || s.any_killed))
		r = -ECHILD;
	return MIN(r, 0);
}
