/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofd: reads the command line, creates the sockets, and becomes the supervisor. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "daemon/broker/broker.h"
#include "daemon/front/announce.h"
#include "daemon/front/front.h"
#include "daemon/front/listeners.h"
#include "daemon/supervisor/notify.h"
#include "daemon/supervisor/settings.h"
#include "daemon/supervisor/state.h"
#include "daemon/supervisor/supervisor.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

#define FILES_AT_START 1024

enum exit_code { EXIT_USAGE = 2, EXIT_HOST = 7 };

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

static int find_users(const char *state, struct sandbox_user *ret_front,
		      struct sandbox_user *ret_broker)
{
	int r = sandbox_user_find(SANDBOX_FRONT_USER, state, NULL, ret_front);

	if (r >= 0)
		r = sandbox_user_find(SANDBOX_BROKER_USER, state, ret_front, ret_broker);
	return r < 0 ? log_error_errno(
			       r,
			       "cannot find an unused user: %m; create the users " SANDBOX_BROKER_USER
			       " and " SANDBOX_FRONT_USER)
		     : 0;
}

/* For the sockets of many targets: the usual limit of a shell may be small, and may be raised. */
static void raise_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_AT_START) {
		files.rlim_cur = MIN((rlim_t)FILES_AT_START, files.rlim_max);
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

static int run(struct front_options *front, bool foreground)
{
	struct roles_options options = {
		.line = -1, .clients = -1, .snapshots = -1, .leaving = -1
	};
	const struct config *config = front->config;
	struct listeners listeners;
	struct notify notify;
	char reason[600];
	sigset_t signals;
	int r;

	raise_files();
	/* From here on there is something to clean up; the supervisor handles the signals. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	if (broker_check_host(reason, sizeof(reason)) < 0) {
		log_error("%s", reason);
		return EXIT_HOST;
	}
	options.lock = state_lock(config->state);
	if (options.lock < 0)
		return EXIT_FAILURE;
	if (!foreground) {
		r = go_background(&front->ready);
		if (r < 0) {
			log_error_errno(r, "cannot go to the background: %m");
			return EXIT_FAILURE;
		}
	}
	notify_open(&notify);
	options.notify = notify.fd;
	front->watchdog_ns = notify.watchdog_ns;
	if (listeners_new(config, &listeners) < 0)
		return EXIT_FAILURE;
	r = sandbox_supervisor();
	if (r < 0) {
		log_error_errno(r, "cannot drop privileges: %m");
		return EXIT_FAILURE;
	}
	announce(&listeners);
	options.listeners = &listeners;
	front->listeners = listeners.list;
	front->n_listeners = listeners.n;
	front->metrics = listeners.metrics;
	r = find_users(config->state, &front->user, &options.user);
	if (r < 0)
		return EXIT_FAILURE;
	options.state = state_open(config->state, &options.user);
	/* Also without triggers: SIGHUP may bring some, and then it cannot be opened any more. */
	if (*config->snapshots.directory) {
		options.snapshots =
			state_open_snapshots(config->snapshots.directory, &options.user);
		if (options.snapshots < 0)
			return EXIT_FAILURE;
	}
	front->cache = state_open_cache(config->state, &front->user);
	options.front = *front;
	r = supervisor_run(&options);
	*front = options.front;
	listeners_remove(front->config, &listeners);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char *argv[])
{
	struct front_options front = {
		.ready = -1, .cache = -1, .metrics = -1, .ports = -1, .argc = argc, .argv = argv
	};
	char reason[600];
	int r;

	r = config_new(argc, argv, &front.config, reason, sizeof(reason));
	if (r > 0)
		return EXIT_SUCCESS;
	if (r == 0)
		r = settings_read_tls(front.config, &front.tls, reason, sizeof(reason));
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
