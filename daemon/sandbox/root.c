/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sandbox/root.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "lib/base/directory.h"
#include "lib/base/macro.h"

#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

#define SHOWN_MAX 8
/* Where the new root is built: a directory that every system has. */
#define PLACE "/proc"

/* A mount of the directory or file alone, -1 if there is none. */
static int clone_mount(int directory, const char *path, uint64_t attributes)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
					       MOUNT_ATTR_NOEXEC | attributes };
	int fd = open_tree(directory, path,
			   OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);

	if (fd >= 0 && mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0)
		return safe_close(fd);
	return fd;
}

/* Moves the mount to where it belongs in the new root, and closes it. */
static int place_mount(int mount, const char *path)
{
	char place[300], parent[300];
	struct stat st;
	int r;

	snprintf(place, sizeof(place), PLACE "%s", path);
	if (fstat(mount, &st) < 0) {
		r = -errno;
	} else if (S_ISDIR(st.st_mode)) {
		r = directory_make(place, 0555);
	} else {
		snprintf(parent, sizeof(parent), "%s", place);
		*strrchr(parent, '/') = 0;
		r = directory_make(parent, 0555);
		if (r == 0 && mknod(place, S_IFREG | 0444, 0) < 0)
			r = -errno;
	}
	if (r == 0 && move_mount(mount, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		r = -errno;
	close(mount);
	return r;
}

/* The new root's mount becomes that of the process; what was mounted disappears. */
static int change_root(void)
{
	if (chdir(PLACE) < 0)
		return -errno;
	if (syscall(SYS_pivot_root, ".", ".") == 0)
		return umount2(".", MNT_DETACH) < 0 || chdir("/") < 0 ? -errno : 0;
	/* The initial file system of the kernel cannot be unmounted. */
	return mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 || chdir("/") < 0
		       ? -errno
		       : 0;
}

static int build(int mounts[], const char *const *shown)
{
	const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
	const mode_t mask = umask(0022);
	int r = 0;

	if (mount("tmpfs", PLACE, "tmpfs", flags, "size=64k,nr_inodes=64,mode=0555") < 0)
		r = -errno;
	for (unsigned i = 0; shown[i] && r == 0; i++)
		if (mounts[i] >= 0)
			r = place_mount(TAKE_FD(mounts[i]), shown[i]);
	if (r == 0 && mount(NULL, PLACE, NULL, MS_REMOUNT | MS_RDONLY | flags, NULL) < 0)
		r = -errno;
	if (r == 0)
		r = change_root();
	if (r < 0)
		umount2(PLACE, MNT_DETACH);
	umask(mask);
	return r;
}

int root_enter(const char *const *shown, int *directory)
{
	_cleanup_close_ int own = -1;
	int mounts[SHOWN_MAX], r, fd;
	unsigned n = 0;

	/* A mount can be cloned in the namespace to which it belongs. */
	if (*directory >= 0) {
		own = clone_mount(*directory, "", 0);
		if (own < 0)
			return -errno;
	}
	/* Mounts of the new namespace must not appear in the host's. */
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	for (; shown[n] && n < SHOWN_MAX; n++)
		mounts[n] = clone_mount(AT_FDCWD, shown[n], MOUNT_ATTR_RDONLY);
	r = build(mounts, shown);
	for (unsigned i = 0; i < n; i++)
		safe_close(mounts[i]);
	if (r < 0 || own < 0)
		return r;
	fd = openat(own, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	close(*directory);
	*directory = fd;
	return 0;
}
