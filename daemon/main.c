/* tfprofd: reads the command line, makes the sockets while it may, and becomes the broker and the front. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "daemon/broker/broker.h"
#include "daemon/config.h"
#include "daemon/front.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

#define DEFAULT_SOCKET "/run/tfprofd/tfprofd.sock"
#define DEFAULT_STATE "/var/lib/tfprofd"
#define DEFAULT_GROUP "tfprofd"

enum exit_code { EXIT_USAGE = 2, EXIT_HOST = 7 };

struct options {
	const char *socket, *state, *config;
	char host[64];
	uint16_t port, first_port, last_port;
	bool listen, foreground, verbose, perf_event_uprobes;
	uint64_t max_duration_ns;
};

static const char help[] =
	"Usage: tfprofd [OPTION]...\n"
	"Profiles model servers from outside and answers TensorBoard's capture button.\n\n"
	"  --socket PATH              Unix socket for tfprofctl (" DEFAULT_SOCKET ")\n"
	"  --listen HOST:PORT         loopback address for TensorBoard, for every process (127.0.0.1:8467);\n"
	"                             the abstract socket @PORT is served, too\n"
	"  --no-listen                no TCP, no ports for single processes, no abstract socket\n"
	"  --target-ports FIRST-LAST  loopback ports for single processes (8468-8567)\n"
	"  --state-dir DIR            what is kept between runs (" DEFAULT_STATE ")\n"
	"  --max-duration SECONDS     longest window that a client may ask for (300)\n"
	"  --probe-links multi|perf-event\n"
	"                             how to attach probes (multi where the kernel can; perf-event is for older kernels)\n"
	"  --config FILE              what captures at single processes' ports are like; none unless given\n"
	"  --foreground               stay in the foreground\n"
	"  --verbose                  say more\n"
	"  --help, --version\n";

static int usage_error(const char *format, const char *what)
{
	fprintf(stderr, "tfprofd: ");
	fprintf(stderr, format, what);
	fprintf(stderr, "; see tfprofd --help\n");
	return -EINVAL;
}

static int parse_number(const char *text, unsigned long min, unsigned long max, unsigned long *ret)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || value < min || value > max)
		return -EINVAL;
	*ret = value;
	return 0;
}

static int parse_listen(struct options *o, const char *text)
{
	const char *colon = strrchr(text, ':');
	struct in_addr address;
	unsigned long port;

	if (!colon || colon == text || (size_t)(colon - text) >= sizeof(o->host) || parse_number(colon + 1, 1, 65535, &port) < 0)
		return usage_error("--listen takes HOST:PORT, not %s", text);
	snprintf(o->host, sizeof(o->host), "%.*s", (int)(colon - text), text);
	if (!strcmp(o->host, "localhost"))
		strcpy(o->host, "127.0.0.1");
	if (inet_pton(AF_INET, o->host, &address) != 1 || ntohl(address.s_addr) >> 24 != 127)
		return usage_error("--listen takes a loopback address (127.0.0.1): others would let every host in; not %s", text);
	o->port = (uint16_t)port;
	return 0;
}

static int parse_ports(struct options *o, const char *text)
{
	unsigned long first, last;
	char copy[32];
	char *dash;

	snprintf(copy, sizeof(copy), "%s", text);
	dash = strchr(copy, '-');
	if (!dash)
		return usage_error("--target-ports takes FIRST-LAST, not %s", text);
	*dash = 0;
	if (parse_number(copy, 1024, 65535, &first) < 0 || parse_number(dash + 1, first, 65535, &last) < 0)
		return usage_error("--target-ports takes two ports from 1024 to 65535, not %s", text);
	o->first_port = (uint16_t)first;
	o->last_port = (uint16_t)last;
	return 0;
}

/* 1: something was asked for and printed. */
static int parse_options(int argc, char *argv[], struct options *o)
{
	static const struct option options[] = {
		{ "socket", required_argument, NULL, 's' },	  { "listen", required_argument, NULL, 'l' },
		{ "no-listen", no_argument, NULL, 'n' },	  { "target-ports", required_argument, NULL, 't' },
		{ "state-dir", required_argument, NULL, 'd' },	  { "foreground", no_argument, NULL, 'f' },
		{ "max-duration", required_argument, NULL, 'm' }, { "probe-links", required_argument, NULL, 'p' },
		{ "verbose", no_argument, NULL, 'v' },		  { "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },		  { "config", required_argument, NULL, 'c' },
		{},
	};
	unsigned long number;
	int c, r = 0;

	while (r == 0 && (c = getopt_long(argc, argv, "", options, NULL)) >= 0)
		switch (c) {
		case 's':
			o->socket = optarg;
			break;
		case 'l':
			r = parse_listen(o, optarg);
			break;
		case 'n':
			o->listen = false;
			break;
		case 't':
			r = parse_ports(o, optarg);
			break;
		case 'd':
			o->state = optarg;
			break;
		case 'c':
			o->config = optarg;
			break;
		case 'f':
			o->foreground = true;
			break;
		case 'm':
			r = parse_number(optarg, 1, 86400, &number);
			if (r < 0)
				return usage_error("--max-duration takes seconds, 1 to 86400, not %s", optarg);
			o->max_duration_ns = number * 1000000000ull;
			break;
		case 'p':
			o->perf_event_uprobes = !strcmp(optarg, "perf-event");
			if (!o->perf_event_uprobes && strcmp(optarg, "multi"))
				return usage_error("--probe-links takes multi or perf-event, not %s", optarg);
			break;
		case 'v':
			o->verbose = true;
			break;
		case 'h':
			fputs(help, stdout);
			return 1;
		case 'V':
			puts("tfprofd " TFPROFD_VERSION);
			return 1;
		default:
			return -EINVAL;
		}
	if (r == 0 && optind < argc)
		return usage_error("unexpected argument %s", argv[optind]);
	return r;
}

static int make_directory(const char *path, mode_t mode)
{
	char copy[512];

	if (strlen(path) >= sizeof(copy))
		return -ENAMETOOLONG;
	strcpy(copy, path);
	for (char *p = copy + 1; *p; p++)
		if (*p == '/') {
			*p = 0;
			if (mkdir(copy, 0755) < 0 && errno != EEXIST)
				return -errno;
			*p = '/';
		}
	return mkdir(copy, mode) < 0 && errno != EEXIST ? -errno : 0;
}

/* Holds the state directory for this daemon alone; the descriptor stays open as long as it lives. */
static int lock_state(const char *path)
{
	char lock[600];
	int fd, r;

	r = make_directory(path, 0700);
	if (r < 0)
		return log_error_errno(r, "cannot make the state directory %s: %m; choose another one with --state-dir", path);
	snprintf(lock, sizeof(lock), "%s/lock", path);
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return log_error_errno(-errno, "cannot write to the state directory %s: %m; choose another one with --state-dir", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		r = -errno;
		close(fd);
		return log_error_errno(r, "another tfprofd uses the state directory %s; choose another one with --state-dir", path);
	}
	return fd;
}

/*
 * A directory that the front, which owns nothing else, may write to; it is a cache, so that a daemon without one only takes longer. Others
 * with the front's user cannot reach it: the state directory is root's.
 */
static int open_cache(const struct options *o)
{
	char path[600];
	int fd;

	snprintf(path, sizeof(path), "%s/cache", o->state);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		fd = -1;
	else
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || (geteuid() == 0 && fchown(fd, FRONT_USER, FRONT_USER) < 0) || fchmod(fd, 0700) < 0) {
		log_warning("cannot use %s: %m; plans are not kept", path);
		return safe_close(fd);
	}
	return fd;
}

static bool socket_is_served(const struct sockaddr_un *address)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0;
}

static int listen_unix(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -1;
	const struct group *group;
	char directory[256];
	struct stat st;
	char *slash;
	int r;

	if (strlen(path) >= sizeof(address.sun_path))
		return log_error_errno(-ENAMETOOLONG, "the path of --socket is too long: %s", path);
	strcpy(address.sun_path, path);
	snprintf(directory, sizeof(directory), "%s", path);
	slash = strrchr(directory, '/');
	if (slash && slash != directory) {
		*slash = 0;
		r = make_directory(directory, 0755);
		if (r < 0)
			return log_error_errno(r, "cannot make %s: %m; choose another path with --socket", directory);
	}
	if (lstat(path, &st) == 0) {
		if (!S_ISSOCK(st.st_mode))
			return log_error_errno(-EEXIST, "%s exists and is no socket; choose another path with --socket", path);
		if (socket_is_served(&address))
			return log_error_errno(-EADDRINUSE, "another tfprofd serves %s; choose another path with --socket", path);
		unlink(path); /* left by one that was killed */
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 64) < 0)
		return log_error_errno(-errno, "cannot listen on %s: %m", path);
	group = getgrnam(DEFAULT_GROUP);
	if (group && chown(path, (uid_t)-1, group->gr_gid) < 0)
		log_warning("cannot give %s to the group " DEFAULT_GROUP ": %m", path);
	if (chmod(path, 0660) < 0)
		return log_error_errno(-errno, "cannot set the mode of %s: %m", path);
	return TAKE_FD(fd);
}

static int bind_tcp(const char *host, uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1;

	inet_pton(AF_INET, host, &address.sin_addr);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int listen_tcp(const struct options *o)
{
	_cleanup_close_ int fd = bind_tcp(o->host, o->port);

	if (fd < 0 || listen(fd, 64) < 0)
		return log_error_errno(fd < 0 ? fd : -errno, "cannot listen on %s:%u: %m; choose another port with --listen, or --no-listen",
				       o->host, o->port);
	return TAKE_FD(fd);
}

static int listen_abstract(const struct options *o)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int n = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%u", o->port);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, 64) < 0)
		return log_error_errno(-errno, "cannot listen on the abstract socket @%u: %m; choose another port with --listen", o->port);
	return TAKE_FD(fd);
}

static int make_listeners(const struct options *o, struct front_options *front)
{
	int (*const listen_on[])(const struct options *) = { listen_tcp, listen_abstract };
	int fd = listen_unix(o->socket);

	if (fd < 0)
		return fd;
	front->listeners[front->n_listeners++] = fd;
	for (unsigned i = 0; o->listen && i < ARRAY_SIZE(listen_on); i++) {
		fd = listen_on[i](o);
		if (fd < 0)
			return fd;
		front->listeners[front->n_listeners++] = fd;
	}
	/* Bound now, since the broker gives its network up; they listen when there is a target. Ports that are taken are left out. */
	front->first_target_listener = front->n_listeners;
	for (unsigned port = o->first_port; o->listen && port <= o->last_port && front->n_listeners < BROKER_MAX_LISTENERS; port++) {
		fd = bind_tcp("127.0.0.1", (uint16_t)port);
		if (fd >= 0)
			front->listeners[front->n_listeners++] = fd;
	}
	return 0;
}

/* When memory runs out, the profiler goes before the server that it watches. */
static void prefer_for_oom(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "800", 3) < 0)
		log_debug("cannot set the OOM score: %m");
	safe_close(fd);
}

/* Forks the front; the caller becomes the broker and returns when the front has ended. */
static int run_roles(const struct options *o, int lock, struct front_options *front)
{
	int requests[2], events[2], status = 0, r;
	pid_t parent = getpid(), child;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, requests) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, events) < 0)
		return log_error_errno(-errno, "cannot make a socket pair: %m");
	child = fork();
	if (child < 0)
		return log_error_errno(-errno, "cannot fork: %m");
	if (child == 0) {
		/* For the time until its privileges are dropped; from then on the broker's end of the pairs tells when it goes. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(EXIT_FAILURE);
		/* The broker says when to end. */
		signal(SIGINT, SIG_IGN);
		signal(SIGTERM, SIG_IGN);
		prefer_for_oom();
		signal(SIGPIPE, SIG_IGN);
		log_set_role("tfprofd front");
		close(lock);
		close(requests[0]);
		close(events[0]);
		front->requests = requests[1];
		front->events = events[1];
		fcntl(front->events, F_SETFL, O_NONBLOCK);
		_exit(front_run(front) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
	}
	log_set_role("tfprofd broker");
	close(requests[1]);
	close(events[1]);
	safe_close(front->ready);
	safe_close(front->cache);
	r = broker_run(&(struct broker_options){ .requests = requests[0], .events = events[0], .listeners = front->listeners,
						 .n_listeners = front->n_listeners, .perf_event_uprobes = o->perf_event_uprobes });
	close(requests[0]);
	close(events[0]);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	unlink(o->socket);
	return r < 0 ? r : WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECHILD;
}

/* Goes to the background; the caller's process ends when the daemon is ready, or with its failure. */
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
	/* What started the daemon must not wait for its output, and its directory must not be held. */
	null = open("/dev/null", O_RDWR);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 || chdir("/") < 0)
		return -errno;
	close(null);
	*ret_ready = ready[1];
	return 0;
}

int main(int argc, char *argv[])
{
	struct options o = { .socket = DEFAULT_SOCKET, .state = DEFAULT_STATE, .host = "127.0.0.1", .port = 8467, .first_port = 8468,
			     .last_port = 8567, .listen = true, .max_duration_ns = 300000000000ull };
	struct front_options front = { .ready = -1, .cache = -1 };
	struct config *config = NULL;
	char reason[600];
	int r, lock;

	r = parse_options(argc, argv, &o);
	if (r)
		return r > 0 ? EXIT_SUCCESS : EXIT_USAGE;
	if (o.verbose)
		log_set_level(LOG_DEBUG);
	if (o.config && config_read(o.config, &config, reason, sizeof(reason)) < 0) {
		log_error("%s", reason);
		return EXIT_USAGE;
	}
	front.config = config;
	if (broker_check_host(reason, sizeof(reason)) < 0) {
		log_error("%s", reason);
		return EXIT_HOST;
	}
	lock = lock_state(o.state);
	if (lock < 0)
		return EXIT_FAILURE;
	if (!o.foreground) {
		r = go_background(&front.ready);
		if (r < 0) {
			log_error_errno(r, "cannot go to the background: %m");
			return EXIT_FAILURE;
		}
	}
	if (make_listeners(&o, &front) < 0) {
		/* The Unix socket is the first: when it is there, it is ours. */
		if (front.n_listeners)
			unlink(o.socket);
		return EXIT_FAILURE;
	}
	front.max_duration_ns = o.max_duration_ns;
	front.cache = open_cache(&o);
	return run_roles(&o, lock, &front) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
