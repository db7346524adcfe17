/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofd: reads the command line, creates the sockets while it has the privileges, and becomes the
 * broker and the front. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "daemon/broker/broker.h"
#include "daemon/broker/certificates.h"
#include "daemon/broker/notify.h"
#include "daemon/front/announce.h"
#include "daemon/front/front.h"
#include "daemon/front/listeners.h"
#include "daemon/front/pem.h"
#include "daemon/prover/prover.h"
#include "lib/base/directory.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

void __lsan_do_leak_check(void) __attribute__((weak));

enum exit_code { EXIT_USAGE = 2, EXIT_HOST = 7 };

/* Locks the state directory for this daemon; the descriptor stays open as long as it lives. */
static int lock_state(const char *path)
{
	char lock[600];
	int fd, r;

	r = directory_make(path, 0700);
	if (r < 0)
		return log_error_errno(
			r,
			"cannot create the state directory %s: %m; choose another one with --state-dir",
			path);
	snprintf(lock, sizeof(lock), "%s/lock", path);
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return log_error_errno(
			-errno,
			"cannot write to the state directory %s: %m; choose another one with --state-dir",
			path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		r = -errno;
		close(fd);
		return log_error_errno(
			r,
			"the state directory %s is in use by another tfprofd; choose another one with --state-dir",
			path);
	}
	return fd;
}

/*
 * A directory that the front, which owns nothing else, may write to. It is a cache: without it the
 * daemon is only slower. Other processes of the front's user cannot reach it: the state directory
 * belongs to root.
 */
static int open_cache(const char *state, const struct sandbox_user *user)
{
	char path[600];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/cache", state);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		fd = -1;
	else
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	/* Without CAP_CHOWN it is the group's. */
	if (fd < 0 || fstat(fd, &st) < 0 ||
	    (st.st_uid != user->uid && fchown(fd, user->uid, user->gid) < 0 &&
	     (fchown(fd, (uid_t)-1, user->gid) < 0 || fchmod(fd, 0770) < 0))) {
		log_warning("cannot use %s: %m; plans are not cached", path);
		return safe_close(fd);
	}
	return fd;
}

/* When memory runs out, the profiler is killed before the server that it profiles. */
static void prefer_for_oom(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "800", 3) < 0)
		log_debug("cannot set the OOM score: %m");
	safe_close(fd);
}

/* Forks the process that reads ELF files; it ends with the broker. The line to it, or -errno. */
static int start_prover(const struct sandbox_user *user)
{
	enum { LINE = STDERR_FILENO + 1 };
	int lines[2];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, lines) < 0)
		return -errno;
	child = fork();
	if (child < 0)
		return -errno;
	if (child > 0) {
		close(lines[1]);
		return lines[0];
	}
	/* The broker's end of the line is its end. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	log_set_role("tfprofd prover");
	prctl(PR_SET_NAME, "tfprofd-prover");
	prefer_for_oom();
	if (dup2(lines[1], LINE) < 0 || close_range(LINE + 1, ~0u, 0) < 0)
		_exit(EXIT_FAILURE);
	_exit(prover_run(LINE, user) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* In a process of its own, whose other descriptors are closed. */
_Noreturn static void become_front(const struct front_options *front, pid_t broker)
{
	int r;

	/* Until its privileges are dropped; from then on the end of the socket pair shows that the
	 * broker has ended. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != broker)
		_exit(EXIT_FAILURE);
	/* The broker requests its end. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	prefer_for_oom();
	log_set_role("tfprofd front");
	prctl(PR_SET_NAME, "tfprofd-front");
	fcntl(front->events, F_SETFL, O_NONBLOCK);
	r = front_run(front);
	/* A build with sanitizers reports leaks. */
	if (__lsan_do_leak_check)
		__lsan_do_leak_check();
	_exit(r == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* Waits for the front. 0; or -ECHILD: it has failed. */
static int wait_for_front(pid_t front)
{
	int status = 0;

	while (waitpid(front, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		log_error("the front was ended by a signal: %s%s", strsignal(WTERMSIG(status)),
			  WTERMSIG(status) == SIGSYS
				  ? "; it made a system call that it may not make"
				  : "");
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECHILD;
}

/* What of it is configured. */
static struct broker_options broker_options(struct config *config)
{
	return (struct broker_options){
		.perf_event_uprobes = config->perf_event_uprobes,
		.connections = { .all = config->max_connections,
				 .per_user = config->max_connections_per_user },
		.user_ring_bytes = config->ring_bytes_per_user,
		.captures_on_its_own =
			config->recorder.level > 0 || config->lifecycle || config->recorder_clients,
		.authority = &config->access,
		.certificates = config->tls_users,
		.reports_early = config->lifecycle,
		.reload = { config->file, config->tls_certificate, config->tls_key,
			    config->tls_client_ca, config->tls_revoked }
	};
}

/* Forks the front; the caller becomes the broker and returns when the front has ended. */
static int run_roles(const struct listeners *listeners, const struct notify *notify, int lock,
		     int state, struct front_options *front)
{
	const struct config *config = front->config;
	int requests[2], captures[2], events[2], prover = start_prover(&front->user), failed, r;
	pid_t parent = getpid(), child;
	struct broker_options broker;

	if (prover < 0)
		return log_error_errno(prover, "cannot start the prover: %m");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, requests) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, captures) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, events) < 0)
		return log_error_errno(-errno, "cannot create a socket pair: %m");
	child = fork();
	if (child < 0)
		return log_error_errno(-errno, "cannot fork: %m");
	if (child == 0) {
		close(lock);
		safe_close(state);
		close(prover);
		safe_close(notify->fd);
		close(requests[0]);
		close(captures[0]);
		close(events[0]);
		front->requests = requests[1];
		front->captures = captures[1];
		front->events = events[1];
		become_front(front, parent);
	}
	log_set_role("tfprofd broker");
	fcntl(events[0], F_SETFL, O_NONBLOCK);
	close(requests[1]);
	close(captures[1]);
	close(events[1]);
	safe_close(front->ready);
	safe_close(front->cache);
	safe_close(front->metrics);
	front->tls = grpc_tls_free(front->tls);
	broker = broker_options(front->config);
	broker.requests = requests[0];
	broker.captures = captures[0];
	broker.events = events[0];
	broker.prover = prover;
	broker.listeners = listeners->list;
	broker.n_listeners = listeners->n;
	broker.notify = *notify;
	broker.state = state;
	r = broker_run(&broker);
	close(requests[0]);
	close(events[0]);
	failed = wait_for_front(child);
	listeners_remove(config, listeners);
	return r < 0 ? r : failed;
}

/* Goes to the background; the calling process exits when the daemon is ready, or with its
 * failure. */
static int go_background(int *ret_ready)
{
	int ready[2], null;
	pid_t child;
	char byte;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return -errno;
	child = fork();
	if (child < 0)
		return -errno;
	if (child > 0) {
		int status = 0;

		close(ready[1]);
		if (read(ready[0], &byte, 1) == 1)
			_exit(EXIT_SUCCESS);
		waitpid(child, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE);
	}
	close(ready[0]);
	setsid();
	/* The process that started the daemon must not wait for its output, and its directory must
	 * not be kept in use. */
	null = open("/dev/null", O_RDWR);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    chdir("/") < 0)
		return -errno;
	close(null);
	*ret_ready = ready[1];
	return 0;
}

/* Files that only root may read. */
static int prepare_tls(const struct config *config, struct grpc_tls **ret, char *ret_text,
		       size_t text_size)
{
	const char *const paths[PEM_COUNT] = { config->tls_certificate, config->tls_key,
					       config->tls_client_ca, config->tls_revoked };
	struct certificates *certificates;
	bool wanted[PEM_COUNT];
	int fds[PEM_COUNT], r = 0;

	if (!*config->tls_certificate)
		return 0;
	/* The broker reads it again. */
	if (*config->tls_users) {
		r = certificates_read(config->tls_users, &certificates, ret_text, text_size);
		if (r < 0)
			return r;
		certificates_free(certificates);
	}
	for (unsigned i = 0; i < PEM_COUNT; i++) {
		fds[i] = *paths[i] && r == 0 ? open(paths[i], O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
		if (*paths[i] && r == 0 && fds[i] < 0) {
			r = -errno;
			snprintf(ret_text, text_size, "cannot read %s: %s", paths[i], strerror(-r));
		}
	}
	for (unsigned i = 0; i < PEM_COUNT; i++)
		wanted[i] = *paths[i];
	if (r == 0)
		r = pem_read(fds, wanted, ret, ret_text, text_size);
	for (unsigned i = 0; i < PEM_COUNT; i++)
		safe_close(fds[i]);
	return r;
}

static int run(struct front_options *front, bool foreground)
{
	const struct config *config = front->config;
	struct listeners listeners;
	struct notify notify;
	char reason[600];
	sigset_t signals;
	int lock, r;

	/* From here on there is something to clean up; the broker handles the signals. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	if (broker_check_host(reason, sizeof(reason)) < 0) {
		log_error("%s", reason);
		return EXIT_HOST;
	}
	lock = lock_state(config->state);
	if (lock < 0)
		return EXIT_FAILURE;
	if (!foreground) {
		r = go_background(&front->ready);
		if (r < 0) {
			log_error_errno(r, "cannot go to the background: %m");
			return EXIT_FAILURE;
		}
	}
	notify_open(&notify);
	front->watchdog_ns = notify.watchdog_ns;
	if (listeners_new(config, &listeners) < 0)
		return EXIT_FAILURE;
	announce(&listeners);
	front->listeners = listeners.list;
	front->n_listeners = listeners.n;
	front->metrics = listeners.metrics;
	r = sandbox_user_find(SANDBOX_FRONT_USER, config->state, &front->user);
	if (r < 0) {
		log_error_errno(
			r, "cannot find an unused user: %m; create the user " SANDBOX_FRONT_USER);
		return EXIT_FAILURE;
	}
	front->cache = open_cache(config->state, &front->user);
	return run_roles(&listeners, &notify, lock,
			 open(config->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC), front) < 0
		       ? EXIT_FAILURE
		       : EXIT_SUCCESS;
}

int main(int argc, char *argv[])
{
	struct front_options front = {
		.ready = -1, .cache = -1, .metrics = -1, .argc = argc, .argv = argv
	};
	char reason[600];
	int r;

	r = config_new(argc, argv, &front.config, reason, sizeof(reason));
	if (r > 0)
		return EXIT_SUCCESS;
	if (r == 0)
		r = prepare_tls(front.config, &front.tls, reason, sizeof(reason));
	if (r < 0) {
		log_error("%s", reason);
		r = EXIT_USAGE;
	} else if (front.config->check) {
		puts("the configuration is valid");
		r = EXIT_SUCCESS;
	} else {
		if (front.config->verbose)
			log_set_level(LOG_DEBUG);
		/* A process that hands over sockets waits for this one. */
		r = run(&front, front.config->foreground || listeners_are_handed());
	}
	grpc_tls_free(front.tls);
	config_free(front.config);
	return r;
}
