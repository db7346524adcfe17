/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sandbox/sandbox.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include "daemon/sandbox/calls.h"
#include "daemon/sandbox/landlock.h"
#include "daemon/sandbox/root.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

#define FRONT_FILES 4096
/* Of a file that the front writes: as long as the longest recording. */
#define FRONT_FILE_BYTES (512u << 20)

/* What the front sees of the host's files: processes. */
static const char *const shown[] = { "/proc", NULL };
static const char *const nothing[] = { NULL };

static int limit(int resource, rlim_t value)
{
	const struct rlimit both = { value, value };

	return setrlimit((__rlimit_resource_t)resource, &both) < 0 ? -errno : 0;
}

/* Neither a core file nor another process of its user shows its memory. */
static int hide_memory(void)
{
	int r = limit(RLIMIT_CORE, 0);

	return r < 0 ? r : prctl(PR_SET_DUMPABLE, 0) < 0 ? -errno : 0;
}

/* Half of this machine's memory. Files and rings that are mapped do not count. */
static int limit_memory(void)
{
#ifdef __SANITIZE_ADDRESS__
	/* It reserves terabytes. */
	return 0;
#else
	struct sysinfo info;

	if (sysinfo(&info) < 0)
		return -errno;
	return limit(RLIMIT_DATA, (rlim_t)info.totalram * info.mem_unit / 2);
#endif
}

static int drop_bounding_set(void)
{
	for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
		if (cap_get_bound(cap) == 1 && cap_drop_bound(cap) < 0)
			return -errno;
	return 0;
}

static int drop_capabilities(void)
{
	cap_t none = cap_init();
	int r = 0;

	if (!none)
		return -ENOMEM;
	if (cap_set_proc(none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = -errno;
	cap_free(none);
	return r;
}

/* Namespaces need CAP_SYS_ADMIN, which the daemon may have been started without. */
static void leave_host(const char *const *seen, int *directory)
{
	int r = unshare(CLONE_NEWNET | CLONE_NEWIPC) < 0 ? -errno : 0;

	if (r < 0)
		log_errno(
			r == -EPERM ? LOG_INFO : LOG_WARNING, r,
			"cannot leave the host's network (%m); system calls that open sockets are forbidden all the same");
	r = root_enter(seen, directory);
	if (r < 0)
		log_errno(
			r == -EPERM ? LOG_INFO : LOG_WARNING, r,
			"cannot leave the host's file system (%m); Landlock restricts what can be opened, if this kernel has it");
}

/* What the processes without privileges have in common. They write in the directory only. */
static int drop_everything(const struct sandbox_user *user, const char *const *seen, int *directory)
{
	int r;

	leave_host(seen, directory);
	r = cap_get_bound(CAP_SETPCAP) == 1 ? drop_bounding_set() : 0;
	if (r >= 0)
		r = sandbox_user_become(user);
	if (r > 0)
		log_warning(
			"cannot become another user and remain that of the broker; start tfprofd with CAP_SETUID and CAP_SETGID");
	if (r >= 0)
		r = drop_capabilities();
	if (r >= 0)
		r = hide_memory();
	if (r < 0)
		return log_error_errno(r, "cannot drop privileges: %m");
	r = landlock_restrict(seen, *directory);
	if (r < 0)
		log_warning_errno(
			r, "cannot use Landlock (%m); users and system calls are restricted");
	return 0;
}

static int apply_calls(struct filter *f)
{
	int r = filter_apply(f);

	return r < 0 ? log_error_errno(
			       r, "cannot restrict the system calls: %m; tfprofd needs seccomp")
		     : 0;
}

int sandbox_front(struct sandbox_front *front)
{
	struct filter filter;
	int r;

	r = limit(RLIMIT_NOFILE, FRONT_FILES);
	if (r < 0)
		log_debug("cannot set RLIMIT_NOFILE: %s", strerror(-r));
	r = limit(RLIMIT_FSIZE, FRONT_FILE_BYTES);
	if (r < 0)
		log_debug("cannot set RLIMIT_FSIZE: %s", strerror(-r));
	r = limit_memory();
	if (r < 0)
		log_debug("cannot set RLIMIT_DATA: %s", strerror(-r));
	r = drop_everything(&front->user, shown, &front->cache);
	if (r < 0)
		return r;
	filter_begin(&filter);
	calls_of_front(&filter, front->cache);
	return apply_calls(&filter);
}

int sandbox_prover(const struct sandbox_user *user)
{
	struct filter filter;
	int none = -1, r;

	r = drop_everything(user, nothing, &none);
	if (r < 0)
		return r;
	filter_begin(&filter);
	calls_of_prover(&filter);
	return apply_calls(&filter);
}

int sandbox_reader(void)
{
	struct filter filter;

	filter_begin(&filter);
	calls_of_reader(&filter);
	return filter_apply(&filter);
}

int sandbox_supervisor(void)
{
	int r = hide_memory();

	if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = -errno;
	return r;
}

int sandbox_broker(const int *writable, size_t n)
{
	struct filter filter;
	int r = hide_memory();

	if (r < 0)
		return log_error_errno(r, "cannot drop privileges: %m");
	filter_begin(&filter);
	calls_of_broker(&filter, writable, n);
	return apply_calls(&filter);
}
