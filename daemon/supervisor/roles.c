/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/supervisor/roles.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "daemon/broker/broker.h"
#include "daemon/broker/channel.h"
#include "daemon/prover/prover.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

void __lsan_do_leak_check(void) __attribute__((weak));

/* Forks; in the child, which ends with the supervisor until it drops its privileges, 0. */
static pid_t start(const char *role, const char *comm)
{
	pid_t supervisor = getpid(), child = fork();
	sigset_t ended;

	if (child != 0)
		return child < 0 ? -errno : child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != supervisor)
		_exit(EXIT_FAILURE);
	sigemptyset(&ended);
	sigaddset(&ended, SIGCHLD);
	sigprocmask(SIG_UNBLOCK, &ended, NULL);
	log_set_role(role);
	prctl(PR_SET_NAME, comm);
	return 0;
}

_Noreturn static void end(int result)
{
	/* A build with sanitizers reports leaks. */
	if (__lsan_do_leak_check)
		__lsan_do_leak_check();
	_exit(result == 0 ? EXIT_SUCCESS : result == -ECHILD ? ROLES_LOST_PROVER : EXIT_FAILURE);
}

/* The broker requests their end. */
static void ignore_signals(void)
{
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
}

/* When memory runs out, the profiler is killed before the server that it profiles. */
static void prefer_for_oom(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "800", 3) < 0)
		log_debug("cannot set the OOM score: %m");
	safe_close(fd);
}

/* Reads ELF files for the broker. */
static pid_t start_prover(const struct sandbox_user *user, int socket)
{
	enum { LINE = STDERR_FILENO + 1 };
	pid_t child = start("tfprofd prover", "tfprofd-prover");

	if (child != 0)
		return child;
	ignore_signals();
	prefer_for_oom();
	if (dup2(socket, LINE) < 0 || close_range(LINE + 1, ~0u, 0) < 0)
		_exit(EXIT_FAILURE);
	_exit(prover_run(LINE, user) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

static struct trigger_names trigger_names(const struct config *config)
{
	struct trigger_names names = { .n = config->n_triggers };

	for (unsigned i = 0; i < names.n; i++)
		memcpy(names.names[i], config->triggers[i].name, sizeof(names.names[i]));
	return names;
}

void roles_rules(const struct config *config, struct broker_rules *ret)
{
	*ret = (struct broker_rules){ config->access, trigger_names(config) };
}

/* What of it is configured. */
static struct broker_options broker_options(struct config *config)
{
	return (struct broker_options){
		.perf_event_uprobes = config->perf_event_uprobes,
		.connections = { .all = config->max_connections,
				 .per_user = config->max_connections_per_user },
		.user_ring_bytes = config->ring_bytes_per_user,
		.keep_ns = config->keep_programs_ns,
		.captures_on_its_own =
			config->recorder.level > 0 || config->lifecycle || config->recorder_clients,
		.authority = &config->access,
		.certificates = config->tls_users,
		.reports_early = config->lifecycle,
		.snapshots = { .triggers = trigger_names(config),
			       .interval_ns = config->snapshots.interval_ns,
			       .keep = config->snapshots.keep,
			       .bytes = config->snapshots.bytes },
		.reload = { config->file, config->tls_certificate, config->tls_key,
			    config->tls_client_ca, config->tls_revoked }
	};
}

/* Socket pairs: the first end of each is the broker's. */
enum { REQUESTS, CAPTURES, EVENTS, PROVER, NOTES, PAIRS };

static void close_all(const int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
}

static int make_pairs(int brokers[PAIRS], int others[PAIRS])
{
	for (unsigned n = 0; n < PAIRS; n++) {
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
			int error = errno;

			close_all(brokers, n);
			close_all(others, n);
			return error ? -error : -EIO;
		}
		brokers[n] = pair[0];
		others[n] = pair[1];
	}
	return 0;
}

static void become_broker(const struct roles_options *options, const int sockets[PAIRS])
{
	struct front_options front = options->front;
	struct broker_options broker = broker_options(front.config);
	int r;

	safe_close(options->line);
	safe_close(options->notify);
	safe_close(front.ready);
	safe_close(front.cache);
	safe_close(front.metrics);
	safe_close(front.ports);
	grpc_tls_free(front.tls);
	fcntl(sockets[EVENTS], F_SETFL, O_NONBLOCK);
	broker.requests = sockets[REQUESTS];
	broker.captures = sockets[CAPTURES];
	broker.events = sockets[EVENTS];
	broker.prover = sockets[PROVER];
	broker.notes = sockets[NOTES];
	broker.predecessor = options->leaving;
	broker.clients = options->clients;
	broker.user = options->user;
	broker.listeners = options->listeners->list;
	broker.n_listeners = options->listeners->n;
	broker.state = options->state;
	broker.snapshots.directory = options->snapshots;
	r = broker_run(&broker);
	config_free(front.config);
	end(r);
}

int roles_start_broker(const struct roles_options *options, struct broker_role *ret)
{
	int brokers[PAIRS], others[PAIRS], r = make_pairs(brokers, others);

	if (r < 0)
		return r;
	ret->prover = start_prover(&options->front.user, others[PROVER]);
	ret->broker = ret->prover < 0 ? ret->prover : start("tfprofd broker", "tfprofd-broker");
	if (ret->broker == 0) {
		close_all(others, PAIRS);
		become_broker(options, brokers);
	}
	/* Without a broker the prover ends. */
	close_all(brokers, PAIRS);
	close(others[PROVER]);
	ret->lines = (struct front_lines){ others[REQUESTS], others[CAPTURES], others[EVENTS] };
	ret->notes = others[NOTES];
	return MIN(ret->broker, 0);
}

static void close_lines(const struct front_lines *lines)
{
	close(lines->requests);
	close(lines->captures);
	close(lines->events);
}

int roles_start_front(const struct roles_options *options, const struct broker_role *broker,
		      int *ret_line, pid_t *ret_front)
{
	struct front_options front = options->front;
	int line[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line) < 0) {
		*ret_front = -errno;
		close_lines(&broker->lines);
		return *ret_front;
	}
	*ret_front = start("tfprofd front", "tfprofd-front");
	if (*ret_front == 0) {
		close(options->lock);
		safe_close(options->state);
		safe_close(options->snapshots);
		safe_close(options->notify);
		safe_close(options->leaving);
		close(options->clients);
		close(broker->notes);
		close(line[0]);
		ignore_signals();
		signal(SIGPIPE, SIG_IGN);
		/* A file beyond its limit is an error of the call. */
		signal(SIGXFSZ, SIG_IGN);
		prefer_for_oom();
		front.lines = broker->lines;
		front.supervisor = line[1];
		end(front_run(&front));
	}
	close(line[1]);
	close_lines(&broker->lines);
	if (*ret_front < 0)
		close(line[0]);
	else
		*ret_line = line[0];
	return MIN(*ret_front, 0);
}

int roles_hand_over(int line, const struct front_lines *lines)
{
	const int fds[] = { lines->requests, lines->captures, lines->events };
	int r = channel_send(line, "", 1, fds, ARRAY_SIZE(fds));

	close_lines(lines);
	return r;
}
