/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/hlo.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/capture/recording.h"
#include "daemon/capture/result.h"
#include "lib/base/clock.h"
#include "lib/base/macro.h"
#include "lib/proc/start_time.h"

/* The time stamps of files and of processes have different resolutions. */
#define TICK_NS 20000000ll
/* Limits how many files of a process are opened, one after the other, including older ones. */
#define FILES_MAX 256

/* Unix time. -ESRCH, -EBADMSG. */
static int find_start(pid_t pid, int64_t *ret_ns)
{
	uint64_t ago;
	int r = started_ago(pid, 0, &ago);

	if (r < 0)
		return r;
	*ret_ns = (int64_t)(clock_now(CLOCK_REALTIME) - ago);
	return 0;
}

/* How many modules are not shown, and the reason for the first of them. */
struct left_out {
	unsigned n;
	char name[SESSION_NAME_MAX];
	char reason[160];
};

static const char *explain(int error)
{
	switch (error) {
	case -EBADMSG:
		return "it is incomplete, or not written by XLA";
	case -EINVAL:
		return "its module's name is not one of XLA's";
	case -EFBIG:
		return "it is too large";
	case -ENOBUFS:
		return "there are too many, or they are too large";
	default:
		return strerror(-error);
	}
}

static void leave_out(struct left_out *left, const char *name, int error, const char *reason)
{
	if (left->n++)
		return;
	snprintf(left->name, sizeof(left->name), "%s", name);
	snprintf(left->reason, sizeof(left->reason), "%s",
		 reason && *reason ? reason : explain(error));
}

static void warn_left_out(const struct left_out *left, pid_t pid, struct capture_result *result)
{
	if (left->n)
		result_warn(result, "Process %d: %u XLA modules are not shown: %.160s: %s.", pid,
			    left->n, left->name, left->reason);
}

/* Processes may share a directory. */
static bool is_known(const struct hlo_files *files, const struct stat *st)
{
	for (unsigned i = 0; i < files->n; i++)
		if (files->list[i].device == st->st_dev && files->list[i].inode == st->st_ino)
			return true;
	return false;
}

/* Whether the file was written after the process began; files of an earlier process are ignored. */
static bool is_own(const struct stat *st, int64_t begun_ns)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec + TICK_NS >= begun_ns;
}

/* Takes ownership of the descriptor, or closes it. */
static void take_file(struct hlo_files *files, int fd, pid_t pid, const char *name,
		      int64_t begun_ns, struct left_out *left, unsigned *n_older)
{
	struct hlo_file *file = &files->list[files->n];
	struct stat st;

	if (fstat(fd, &st) < 0) {
		leave_out(left, name, -errno, NULL);
	} else if (!is_own(&st, begun_ns)) {
		++*n_older;
	} else if (is_known(files, &st)) {
		/* Files of other processes count, too. */
	} else if (files->n == MODULES_MAX) {
		leave_out(left, name, -ENOBUFS, NULL);
	} else {
		*file = (struct hlo_file){
			.fd = TAKE_FD(fd), .pid = pid, .device = st.st_dev, .inode = st.st_ino
		};
		snprintf(file->name, sizeof(file->name), "%s", name);
		files->n++;
	}
	safe_close(fd);
}

static void open_of(struct session *s, unsigned target, struct hlo_files *files,
		    struct capture_result *result)
{
	char name[SESSION_NAME_MAX] = "", text[192] = "";
	pid_t pid = session_target_pid(s, target);
	unsigned n_files = 0, n_older = 0;
	struct left_out left = {};
	int64_t begun_ns = 0;
	int fd = 0;

	for (; n_files < FILES_MAX; n_files++) {
		*text = 0;
		fd = session_next_module(s, target, name, text, sizeof(text));
		if (fd == -ENODATA || fd == -ESRCH || (fd < 0 && !*name))
			break;
		/* A file that was deleted meanwhile is skipped. */
		if (fd == -ENOENT)
			continue;
		if (fd < 0) {
			leave_out(&left, name, fd, text);
		} else if (!begun_ns && find_start(pid, &begun_ns) < 0) {
			leave_out(&left, name, 0, "the start time of the process cannot be read");
			close(fd);
		} else {
			take_file(files, fd, pid, name, begun_ns, &left, &n_older);
		}
	}
	if (*text && !*name)
		result_warn(result, "Process %d: XLA modules are not shown: %s.", pid, text);
	else if (fd == -ENOENT && !n_files)
		result_warn(
			result,
			"Process %d: XLA modules are not shown: none has been written yet, or XLA_FLAGS lacks --xla_dump_hlo_as_proto.",
			pid);
	else if (n_files == FILES_MAX)
		result_warn(
			result,
			"Process %d: not all XLA modules are shown: their directory has more than %d.",
			pid, FILES_MAX);
	else if (n_older)
		result_warn(
			result,
			"Process %d: %u modules in its XLA dump directory are not shown: they are older than the process.",
			pid, n_older);
	warn_left_out(&left, pid, result);
}

void hlo_open(struct session *s, struct hlo_files *ret, struct capture_result *result)
{
	ret->n = 0;
	for (unsigned i = 0; i < session_n_targets(s); i++)
		if (!session_target_ended(s, i))
			open_of(s, i, ret, result);
}

/* The whole file, or -EBADMSG if it changes meanwhile. */
static int read_file(int fd, uint8_t **ret, size_t *ret_size)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	struct stat st;
	size_t size;

	if (fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > BROKER_MODULE_BYTES_MAX)
		return -EBADMSG;
	size = (size_t)st.st_size;
	bytes = malloc(size);
	if (!bytes)
		return -ENOMEM;
	for (size_t at = 0; at < size;) {
		ssize_t n = pread(fd, bytes + at, size - at, (off_t)at);

		if (n <= 0)
			return -EBADMSG;
		at += (size_t)n;
	}
	*ret = TAKE_PTR(bytes);
	*ret_size = size;
	return 0;
}

static int take_module(int fd, struct journal *journal, struct modules *modules)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t size;
	int r = read_file(fd, &bytes, &size);

	if (r >= 0)
		r = modules_add(modules, bytes, size);
	if (r >= 0 && journal)
		recording_add_module(journal, bytes, size);
	return r;
}

int hlo_read(struct hlo_files *files, struct journal *journal, struct capture_result *result)
{
	struct left_out left = {};
	int error = 0;

	for (unsigned i = 0; i < files->n; i++) {
		struct hlo_file *file = &files->list[i];
		int r = error < 0 ? error : take_module(file->fd, journal, &result->modules);

		if (r == -ENOMEM)
			error = r;
		else if (r < 0)
			leave_out(&left, file->name, r, NULL);
		file->fd = safe_close(file->fd);
		/* The next file belongs to another process. */
		if (i + 1 == files->n || files->list[i + 1].pid != file->pid) {
			warn_left_out(&left, file->pid, result);
			left = (struct left_out){};
		}
	}
	files->n = 0;
	return error;
}
