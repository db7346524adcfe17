/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/connect/private_daemon.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>

#include "cli/interrupt.h"
#include "lib/base/macro.h"

#define PROGRAM "tfprofd"
#define STOP_MS 10000
#define AWAIT_END_MS 2000
#define ERRORS_MAX 65536
#define TREE_DEPTH_MAX 8

struct private_daemon {
	/*
	 * The daemon's parent, a process of its own: it ends the daemon and removes its directory
	 * when the other end of lifeline is closed, which the kernel does when this process is
	 * killed.
	 */
	pid_t keeper;
	int lifeline;
	int errors;
	bool ended;
	int code;
	char directory[32];
	char address[64];
};

/* Removes whatever a daemon leaves in its directory; follows no link. */
static void remove_tree(int parent, const char *name, int depth)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (fd >= 0 && !directory)
		close(fd);
	while (directory && (entry = readdir(directory))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (unlinkat(fd, entry->d_name, 0) < 0 && depth < TREE_DEPTH_MAX)
			remove_tree(fd, entry->d_name, depth + 1);
	}
	if (directory)
		closedir(directory);
	unlinkat(parent, name, AT_REMOVEDIR);
}

static bool is_program(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

static bool find_in_path(char path[static PATH_MAX])
{
	const char *entry = getenv("PATH");

	while (entry && *entry) {
		size_t n = strcspn(entry, ":");

		/* Never the current directory, which may belong to another user. */
		if (*entry == '/' &&
		    snprintf(path, PATH_MAX, "%.*s/" PROGRAM, (int)n, entry) < PATH_MAX &&
		    is_program(path))
			return true;
		entry += n + (entry[n] == ':');
	}
	return false;
}

static bool find_program(char path[static PATH_MAX])
{
	static const char *const places[] = { "/" PROGRAM, "/../sbin/" PROGRAM };
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n > 0) {
		self[n] = '\0';
		*strrchr(self, '/') = '\0';
		for (size_t i = 0; i < ARRAY_SIZE(places); i++)
			if (snprintf(path, PATH_MAX, "%s%s", self, places[i]) < PATH_MAX &&
			    is_program(path))
				return true;
	}
	return find_in_path(path);
}

__attribute__((noreturn)) static void run_program(const char *program, const char *directory)
{
	char socket_path[PATH_MAX], stream[64];
	struct stat errors;
	sigset_t none;

	snprintf(socket_path, sizeof(socket_path), "%s/tfprofd.sock", directory);
	/* In case the keeper is killed, too. The daemon loses this when it changes its user, hence
	 * the keeper. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	setpgid(0, 0);
	interrupt_release();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* So that the daemon marks its messages with priorities, as it does for the journal. */
	if (!fstat(STDERR_FILENO, &errors)) {
		snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)errors.st_dev,
			 (uintmax_t)errors.st_ino);
		setenv("JOURNAL_STREAM", stream, 1);
	}
	execl(program, program, "--no-listen", "--socket", socket_path, "--state-dir", directory,
	      "--foreground", (char *)NULL);
	dprintf(STDERR_FILENO, "cannot run %s: %m\n", program);
	_exit(127);
}

/* Waits for the end of the daemon or of the command; returns the exit code to pass on. */
static int keep_until_end(pid_t daemon, int lifeline)
{
	_cleanup_close_ int ended = pidfd_open(daemon, 0);
	struct pollfd polled[] = { { .fd = ended, .events = POLLIN },
				   { .fd = lifeline, .events = POLLIN } };
	int status = 0;

	if (ended >= 0) {
		while (poll(polled, ARRAY_SIZE(polled), -1) < 0 && errno == EINTR)
			;
		if (!polled[0].revents) {
			kill(daemon, SIGTERM);
			while (poll(polled, 1, STOP_MS) < 0 && errno == EINTR)
				;
		}
	}
	/* Until the daemon is reaped, its number identifies its process group and nothing else. */
	kill(-daemon, SIGKILL);
	while (waitpid(daemon, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

__attribute__((noreturn)) static void keep(const char *program, const char *directory, int lifeline,
					   int errors)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), code = 1;
	pid_t daemon;

	/* Ctrl-C in the terminal reaches the command, which then closes the lifeline. */
	setsid();
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	/* A reader of the command's output must not wait for this process. */
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(errors, STDERR_FILENO);

	daemon = fork();
	if (!daemon)
		run_program(program, directory);
	if (daemon > 0) {
		setpgid(daemon, daemon);
		code = keep_until_end(daemon, lifeline);
	} else {
		dprintf(STDERR_FILENO, "cannot start a process: %m\n");
	}
	remove_tree(AT_FDCWD, directory, 0);
	_exit(code);
}

static int start_keeper(struct private_daemon *daemon, const char *program)
{
	int lifeline[2] = { -1, -1 }, errors[2] = { -1, -1 }, r = 0;

	if (pipe2(lifeline, O_CLOEXEC) < 0 || pipe2(errors, O_CLOEXEC | O_NONBLOCK) < 0)
		r = -errno;
	/* Neither end blocks: what does not fit is lost, but the daemon never waits for a reader.
	 */
	if (!r) {
		daemon->keeper = fork();
		if (daemon->keeper < 0)
			r = -errno;
	}
	if (!r && !daemon->keeper) {
		close(lifeline[1]);
		keep(program, daemon->directory, lifeline[0], errors[1]);
	}
	safe_close(lifeline[0]);
	safe_close(errors[1]);
	if (r < 0) {
		safe_close(lifeline[1]);
		safe_close(errors[0]);
		return r;
	}
	daemon->lifeline = lifeline[1];
	daemon->errors = errors[0];
	return 0;
}

int private_daemon_start(struct private_daemon **ret)
{
	struct private_daemon *daemon;
	char program[PATH_MAX];
	int r;

	if (!find_program(program))
		return -ENOENT;
	daemon = calloc(1, sizeof(*daemon));
	if (!daemon)
		return -ENOMEM;
	/* Not TMPDIR: the path of a socket must be short. */
	strcpy(daemon->directory, "/tmp/tfprofctl-XXXXXX");
	if (!mkdtemp(daemon->directory)) {
		r = -errno;
		free(daemon);
		return r;
	}
	snprintf(daemon->address, sizeof(daemon->address), "unix:%s/tfprofd.sock",
		 daemon->directory);
	r = start_keeper(daemon, program);
	if (r < 0) {
		rmdir(daemon->directory);
		free(daemon);
		return r;
	}
	*ret = daemon;
	return 0;
}

const char *private_daemon_address(const struct private_daemon *daemon)
{
	return daemon->address;
}

static bool reap(struct private_daemon *daemon, int flags)
{
	int status = 0;
	pid_t pid;

	if (daemon->ended)
		return true;
	do
		pid = waitpid(daemon->keeper, &status, flags);
	while (pid < 0 && errno == EINTR);
	if (!pid)
		return false;
	daemon->ended = true;
	daemon->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return true;
}

bool private_daemon_ended(struct private_daemon *daemon, int *ret_code)
{
	if (!reap(daemon, WNOHANG))
		return false;
	*ret_code = daemon->code;
	return true;
}

bool private_daemon_await_end(struct private_daemon *daemon, int *ret_code)
{
	const struct timespec pause = { .tv_nsec = 20000000 };

	for (int waited = 0; waited < AWAIT_END_MS; waited += 20) {
		if (private_daemon_ended(daemon, ret_code))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

/* Whether a line is to be shown; skips the prefix <N>, its priority. */
static bool is_warning(const char **line)
{
	const char *text = *line;

	if (text[0] != '<' || text[1] < '0' || text[1] > '7' || text[2] != '>')
		return true;
	*line = text + 3;
	return text[1] - '0' <= LOG_WARNING;
}

void private_daemon_read_errors(struct private_daemon *daemon,
				void (*line)(const char *text, void *data), void *data)
{
	_cleanup_free_ char *text = malloc(ERRORS_MAX + 1);
	size_t size = 0;
	char *rest = text;

	while (text && size < ERRORS_MAX) {
		ssize_t n = read(daemon->errors, text + size, ERRORS_MAX - size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		size += (size_t)n;
	}
	if (!text)
		return;
	text[size] = '\0';
	while (rest && *rest) {
		const char *one = strsep(&rest, "\n");

		if (*one && is_warning(&one))
			line(one, data);
	}
}

struct private_daemon *private_daemon_free(struct private_daemon *daemon)
{
	if (!daemon)
		return NULL;
	close(daemon->lifeline);
	reap(daemon, 0);
	close(daemon->errors);
	free(daemon);
	return NULL;
}
