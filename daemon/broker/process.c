/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "lib/base/macro.h"

/* More are not looked at for one that has not ended. */
#define THREADS_MAX 8

/* A process that ends turns up as one or the other. */
static int proc_error(int error)
{
	return error == ENOENT ? -ESRCH : -error;
}

int process_open(pid_t pid)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? proc_error(errno) : fd;
}

static FILE *open_text(int directory, const char *name)
{
	int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

	if (!f)
		safe_close(fd);
	return f;
}

int process_status_read(int directory, struct process_status *ret)
{
	struct process_status s = {};
	_cleanup_free_ char *line = NULL;
	FILE *f = open_text(directory, "status");
	unsigned found = 0;
	size_t size = 0;

	if (!f)
		return proc_error(errno);
	/* The kernel escapes the name of the process: no line of it can be mistaken. */
	while (getline(&line, &size, f) > 0) {
		found += sscanf(line, "Uid: %u %u %u", &s.real, &s.effective, &s.saved) == 3;
		found += sscanf(line, "CapPrm: %lx", &s.permitted_caps) == 1;
		found += sscanf(line, "CapEff: %lx", &s.effective_caps) == 1;
	}
	fclose(f);
	if (found != 3)
		return found ? -EBADMSG : -ESRCH;
	*ret = s;
	return 0;
}

int process_namespace(int directory, const char *kind, struct namespace_id *ret)
{
	struct stat st;
	char path[16];

	snprintf(path, sizeof(path), "ns/%s", kind);
	if (fstatat(directory, path, &st, 0) < 0)
		return proc_error(errno);
	*ret = (struct namespace_id){ st.st_dev, st.st_ino };
	return 0;
}

/* The directory itself always belongs to the effective user: the files in it show whether the
 * process is dumpable. */
static int owner_at(int directory, const char *path, uid_t *ret)
{
	struct stat st;

	if (fstatat(directory, path, &st, AT_EMPTY_PATH) < 0)
		return proc_error(errno);
	*ret = st.st_uid;
	return 0;
}

/* A first thread that has ended has no memory, and its files belong to root: its process may live
 * on. */
static int owner_by_threads(int directory, uid_t user, uid_t *ret)
{
	int fd = openat(directory, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *threads = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	unsigned n = 0;

	if (!threads) {
		safe_close(fd);
		return proc_error(errno);
	}
	while (*ret != user && n < THREADS_MAX && (entry = readdir(threads))) {
		char path[sizeof(entry->d_name) + sizeof("/status")];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/status", entry->d_name);
		owner_at(fd, path, ret);
		n++;
	}
	closedir(threads);
	return 0;
}

int process_owner(int directory, uid_t *ret)
{
	uid_t user, owner;
	int r = owner_at(directory, "", &user);

	if (r == 0)
		r = owner_at(directory, "status", &owner);
	if (r == 0 && owner != user)
		r = owner_by_threads(directory, user, &owner);
	if (r == 0)
		*ret = owner;
	return r;
}

static bool lacks_files(void)
{
	return errno == EMFILE || errno == ENFILE;
}

/* A namespace and its ancestors, up to the broker's own. */
static int read_lineage(int directory, const char *path, struct namespace_id *ids, uid_t *creators,
			unsigned *ret_n)
{
	int fd = openat(directory, path, O_RDONLY | O_CLOEXEC), r = fd < 0 ? proc_error(errno) : 0;
	unsigned n = 0;

	while (fd >= 0 && n < NAMESPACES_MAX) {
		struct stat st;
		int parent;

		if (fstat(fd, &st) < 0 ||
		    (creators && ioctl(fd, NS_GET_OWNER_UID, &creators[n]) < 0)) {
			r = -errno;
			break;
		}
		ids[n++] = (struct namespace_id){ st.st_dev, st.st_ino };
		parent = ioctl(fd, NS_GET_PARENT);
		/* A lack of descriptors is not the end of the line. */
		if (parent < 0 && lacks_files())
			r = -errno;
		close(fd);
		fd = parent;
	}
	safe_close(fd);
	*ret_n = n;
	return r;
}

/* The path of the process in the unified tree of cgroups; without one, in systemd's. */
static int read_cgroup(int directory, char *ret, size_t size)
{
	_cleanup_free_ char *line = NULL;
	FILE *f = open_text(directory, "cgroup");
	size_t line_size = 0;
	ssize_t n;

	ret[0] = 0;
	if (!f)
		return lacks_files() ? -errno : 0;
	while ((n = getline(&line, &line_size, f)) > 0) {
		const char *path = strchr(line, ':') ? strchr(strchr(line, ':') + 1, ':') : NULL;
		bool is_unified = !strncmp(line, "0::", 3);

		if (!path || (!is_unified && !strstr(line, ":name=systemd:")))
			continue;
		if (line[n - 1] == '\n')
			line[n - 1] = 0;
		/* Systemd's own tree is in use where the unified one has nothing but its root. */
		if (is_unified ? strcmp(path + 1, "/") || !*ret : true)
			snprintf(ret, size, "%s", path + 1);
	}
	fclose(f);
	return 0;
}

int target_facts_read(pid_t pid, struct target_facts *ret)
{
	_cleanup_close_ int directory = process_open(pid);
	struct process_status status;
	ssize_t n;
	int r;

	if (directory < 0)
		return directory;
	*ret = (struct target_facts){};
	r = process_status_read(directory, &status);
	if (r == 0)
		r = read_lineage(directory, "ns/user", ret->user_ns, ret->creators,
				 &ret->n_user_ns);
	if (r == 0)
		r = read_lineage(directory, "ns/pid", ret->pid_ns, NULL, &ret->n_pid_ns);
	if (r < 0)
		return r;
	n = readlinkat(directory, "exe", ret->executable, sizeof(ret->executable) - 1);
	ret->executable[MAX(n, 0)] = 0;
	r = read_cgroup(directory, ret->cgroup, sizeof(ret->cgroup));
	/* Last: who gained privileges meanwhile is not dumpable. */
	if (r == 0)
		r = process_owner(directory, &ret->owner);
	if (r < 0)
		return r;
	ret->is_uniform = status.real == status.effective && status.effective == status.saved;
	/* The effective user of a process that is not dumpable is not its owner. */
	ret->is_uniform = ret->is_uniform && status.effective == ret->owner;
	ret->permitted = status.permitted_caps;
	return 0;
}
