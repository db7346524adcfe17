/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "daemon/sandbox/filter.h"
#include "daemon/sandbox/landlock.h"
#include "lib/base/macro.h"
#include "tests/unit/check.h"

/* What a process does in a sandbox: 0, or the errno that it got. */
typedef int (*act_fn)(void);

enum role { ROLE_FRONT, ROLE_BROKER };

static int enter(enum role role, int directory)
{
	struct sandbox_front front = { .user = { getuid(), getgid() }, .cache = directory };

	if (role == ROLE_FRONT)
		return sandbox_front(&front);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return sandbox_broker(&directory, 1);
}

/* The status of a process that did it. */
static int status_of(enum role role, act_fn act)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		const int null = open("/dev/null", O_WRONLY);

		/* What this host refuses is logged. */
		dup2(null, STDERR_FILENO);
		if (enter(role, -1) < 0)
			_exit(100);
		_exit(act());
	}
	waitpid(pid, &status, 0);
	return status;
}

/* What sanitizers need is allowed where they are. */
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED true
#else
#define SANITIZED false
#endif

#define DIES(role, act)                                                                            \
	({                                                                                         \
		const int status_ = status_of(role, act);                                          \
		WIFSIGNALED(status_) && WTERMSIG(status_) == SIGSYS;                               \
	})
#define RESULT(role, act)                                                                          \
	({                                                                                         \
		const int status_ = status_of(role, act);                                          \
		WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);                    \
	})

static int error_of(long r)
{
	return r < 0 ? errno : 0;
}

static int start_program(void)
{
	return error_of(execl("/bin/true", "true", NULL));
}

static int start_process(void)
{
	const pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return error_of(waitpid(pid, NULL, 0));
}

static void *nothing(void *data)
{
	return data;
}

static int start_thread(void)
{
	pthread_t thread;
	const int r = pthread_create(&thread, NULL, nothing, NULL);

	return r ?: pthread_join(thread, NULL);
}

static int map_code(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
			       MAP_FAILED
		       ? errno
		       : 0;
}

static int make_code(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return error_of(mprotect(page, 4096, PROT_READ | PROT_EXEC));
}

static int trace(void)
{
	return error_of(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static int read_process(void)
{
	return error_of(syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0));
}

static int enter_namespace(void)
{
	return error_of(unshare(CLONE_NEWUSER));
}

static int load_program(void)
{
	return error_of(syscall(SYS_bpf, 0, NULL, 0)) == ENOSYS;
}

static int open_event(void)
{
	return error_of(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0)) == ENOSYS;
}

static int open_socket(void)
{
	return error_of(socket(AF_INET, SOCK_STREAM, 0));
}

static int end_another(void)
{
	return error_of(kill(getppid(), SIGTERM));
}

static int see_another(void)
{
	/* It exists; the user and Landlock may forbid it. */
	const int error = error_of(kill(getppid(), 0));

	return error == EPERM ? 0 : error;
}

static int raise_limit(void)
{
	const struct rlimit limit = { 0, 0 };

	return error_of(setrlimit(RLIMIT_CORE, &limit));
}

static int write_file(void)
{
	return error_of(open("/dev/null", O_WRONLY));
}

static int create_file(void)
{
	return error_of(open("/tmp", O_TMPFILE | O_RDWR, 0600));
}

static int read_own_status(void)
{
	return error_of(open("/proc/self/status", O_RDONLY));
}

static int read_host_file(void)
{
	return error_of(open("/etc/os-release", O_RDONLY));
}

static int make_core(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_max == 0 ? 0 : EINVAL;
}

TEST(what_only_the_broker_needs_kills_the_front)
{
	CHECK(DIES(ROLE_FRONT, load_program));
	CHECK(DIES(ROLE_FRONT, open_event));
	CHECK_EQ(RESULT(ROLE_BROKER, load_program), 0);
	CHECK_EQ(RESULT(ROLE_BROKER, open_event), 0);
}

TEST(no_role_starts_a_program_or_makes_code_or_reads_another_process)
{
	for (enum role role = ROLE_FRONT; role <= ROLE_BROKER; role++) {
		CHECK(DIES(role, start_program));
		CHECK(DIES(role, read_process));
		CHECK(DIES(role, enter_namespace));
		CHECK(SANITIZED || DIES(role, map_code));
		CHECK(SANITIZED || DIES(role, make_code));
		CHECK(SANITIZED || DIES(role, trace));
		CHECK(SANITIZED || DIES(role, raise_limit));
		CHECK(DIES(role, write_file));
		CHECK(DIES(role, create_file));
		CHECK_EQ(RESULT(role, make_core), 0);
	}
}

TEST(both_roles_have_threads_and_read_proc)
{
	for (enum role role = ROLE_FRONT; role <= ROLE_BROKER; role++) {
		CHECK_EQ(RESULT(role, start_thread), 0);
		CHECK_EQ(RESULT(role, read_own_status), 0);
	}
}

TEST(the_front_has_no_sockets_no_processes_and_no_files_of_the_host)
{
	CHECK_EQ(RESULT(ROLE_FRONT, open_socket), EACCES);
	CHECK(SANITIZED || DIES(ROLE_FRONT, start_process));
	CHECK(SANITIZED || DIES(ROLE_FRONT, end_another));
	CHECK_EQ(RESULT(ROLE_FRONT, see_another), 0);
	/* In a root of its own there is none; Landlock alone forbids it. */
	CHECK(RESULT(ROLE_FRONT, read_host_file) > 0);
}

TEST(the_broker_starts_a_process_but_opens_no_socket)
{
	CHECK_EQ(RESULT(ROLE_BROKER, start_process), 0);
	CHECK(DIES(ROLE_BROKER, open_socket));
}

/* Creates, renames and removes a file, and tries the directory above. */
static int use(int directory)
{
	const int fd = openat(directory, "new", O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, "x", 1) != 1)
		return 1;
	if (renameat(directory, "new", directory, "old") < 0 || unlinkat(directory, "old", 0) < 0)
		return 2;
	/* Where a mount of its own has its root, this is the same directory. */
	if (openat(directory, "../escaped", O_WRONLY | O_CREAT, 0600) >= 0 &&
	    unlinkat(directory, "escaped", 0) < 0)
		return 3;
	return 0;
}

TEST(the_front_writes_in_its_directory_and_nowhere_else)
{
	char above[] = "/tmp/tfprofd-sandbox-XXXXXX", path[64];
	struct sandbox_front front = { .user = { getuid(), getgid() } };
	int status = 0;
	pid_t pid;

	CHECK(mkdtemp(above));
	snprintf(path, sizeof(path), "%s/cache", above);
	CHECK_EQ(mkdir(path, 0700), 0);
	front.cache = open(path, O_RDONLY | O_DIRECTORY);
	pid = fork();
	if (pid == 0)
		_exit(sandbox_front(&front) < 0 ? 100 : use(front.cache));
	waitpid(pid, &status, 0);
	CHECK_EQ(status, 0);
	close(front.cache);
	CHECK_EQ(rmdir(path), 0);
	/* Nothing was created in it. */
	CHECK_EQ(rmdir(above), 0);
}

static int write_in_tmp(void)
{
	int directory = open("/tmp", O_RDONLY | O_DIRECTORY);

	/* A descriptor of another directory. */
	return error_of(openat(directory, "tfprofd-sandbox", O_WRONLY | O_CREAT, 0600));
}

TEST(the_broker_writes_by_the_descriptor_of_its_directory_only)
{
	char path[] = "/tmp/tfprofd-sandbox-XXXXXX";
	int directory, status = 0;
	pid_t pid;

	CHECK(mkdtemp(path));
	directory = open(path, O_RDONLY | O_DIRECTORY);
	pid = fork();
	if (pid == 0) {
		const int fd = enter(ROLE_BROKER, directory) < 0
				       ? -1
				       : openat(directory, "new", O_WRONLY | O_CREAT, 0600);

		_exit(fd < 0 || unlinkat(directory, "new", 0) < 0);
	}
	waitpid(pid, &status, 0);
	CHECK_EQ(status, 0);
	close(directory);
	CHECK_EQ(rmdir(path), 0);
	CHECK(DIES(ROLE_BROKER, write_in_tmp));
}

static int read_and_write(const char *path, int *ret_read)
{
	const int fd = open(path, O_RDONLY);

	*ret_read = fd < 0 ? errno : 0;
	return error_of(open(path, O_WRONLY));
}

TEST(landlock_alone_lets_a_process_read_what_is_listed_and_write_nothing)
{
	static const char *const readable[] = { "/proc", "/nonexistent", NULL };
	const bool supported = syscall(SYS_landlock_create_ruleset, NULL, 0, 1) > 0;
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		int r, readable_error;

		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		r = landlock_restrict(readable, -1);
		if (r == -EOPNOTSUPP)
			_exit(77);
		if (r < 0)
			_exit(1);
		if (read_and_write("/etc/passwd", &readable_error) != EACCES ||
		    readable_error != EACCES)
			_exit(2);
		if (read_and_write("/proc/self/comm", &readable_error) != EACCES || readable_error)
			_exit(3);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	CHECK_EQ(WEXITSTATUS(status), supported ? 0 : 77);
}

static int with_filter(void (*allow)(struct filter *f), act_fn act)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		struct filter f;

		filter_begin(&f);
		filter_allow(&f, (const uint16_t[]){ SYS_exit_group, SYS_getppid }, 2);
		allow(&f);
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (filter_apply(&f) < 0)
			_exit(100);
		syscall(SYS_exit_group, act());
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void allow_two_values(struct filter *f)
{
	filter_allow_if(f, SYS_dup, 0, 0xff, 0x11);
	filter_allow_if(f, SYS_dup, 0, 0xff, 0x22);
	filter_refuse(f, SYS_uname, EDOM);
}

static int call_with_the_second(void)
{
	return error_of(syscall(SYS_dup, 0x5522)) == EBADF && syscall(SYS_getppid) > 0 ? 0 : 1;
}

static int call_with_another(void)
{
	return (int)syscall(SYS_dup, 0x5533);
}

static int call_refused(void)
{
	return error_of(syscall(SYS_uname, NULL));
}

TEST(a_filter_looks_at_arguments_and_kills_the_rest)
{
	CHECK_EQ(with_filter(allow_two_values, call_with_the_second), 0);
	CHECK_EQ(with_filter(allow_two_values, call_with_another), -SIGSYS);
	CHECK_EQ(with_filter(allow_two_values, call_refused), EDOM);
}

TEST(a_filter_that_is_too_long_is_refused)
{
	struct filter f;

	filter_begin(&f);
	for (unsigned i = 0; i < FILTER_MAX; i++)
		filter_refuse(&f, (uint16_t)i, EPERM);
	CHECK_EQ(filter_apply(&f), -E2BIG);
}

TEST(a_user_that_exists_is_found_and_otherwise_the_same_unused_one_for_a_seed)
{
	struct sandbox_user root, one, again, other;

	CHECK_EQ(sandbox_user_find("root", "/var/lib/a", NULL, &root), 0);
	CHECK_EQ(root.uid, 0);
	CHECK_EQ(sandbox_user_find("no-such-user-here", "/var/lib/a", NULL, &one), 0);
	CHECK_EQ(sandbox_user_find("no-such-user-here", "/var/lib/a", NULL, &again), 0);
	CHECK_EQ(sandbox_user_find("no-such-user-here", "/var/lib/b", NULL, &other), 0);
	CHECK(one.uid >= 61184 && one.uid <= 65519 && one.gid == one.uid);
	CHECK_EQ(one.uid, again.uid);
	CHECK(one.uid != other.uid);
}

CHECK_MAIN()
