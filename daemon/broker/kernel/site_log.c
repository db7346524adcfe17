/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/kernel/site_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "lib/base/directory.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

struct site_log {
	int directory, file;
	char name[32];
	unsigned references; /* atomic */
};

/* In the file, followed by the offsets and the semaphores. */
struct head {
	uint32_t pid, n;
	uint64_t device, inode;
};

int site_log_new(int directory, struct site_log **ret)
{
	struct site_log *log;
	uint32_t number;
	int r;

	*ret = NULL;
	if (directory < 0)
		return 0;
	log = calloc(1, sizeof(*log));
	if (!log)
		return -ENOMEM;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
		free(log);
		return -EIO;
	}
	snprintf(log->name, sizeof(log->name), SITE_LOG_PREFIX "%08x", number);
	log->directory = directory;
	log->references = 1;
	log->file = openat(directory, log->name,
			   O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (log->file < 0) {
		r = -errno;
		free(log);
		return r;
	}
	*ret = log;
	return 0;
}

struct site_log *site_log_ref(struct site_log *log)
{
	if (log)
		__atomic_add_fetch(&log->references, 1, __ATOMIC_SEQ_CST);
	return log;
}

struct site_log *site_log_unref(struct site_log *log)
{
	if (!log || __atomic_sub_fetch(&log->references, 1, __ATOMIC_SEQ_CST))
		return NULL;
	unlinkat(log->directory, log->name, 0);
	close(log->file);
	free(log);
	return NULL;
}

void site_log_add(struct site_log *log, pid_t pid, int file, const uint64_t *offsets,
		  const uint64_t *semaphores, unsigned n)
{
	const size_t size = n * sizeof(offsets[0]);
	struct head head = { .pid = (uint32_t)pid, .n = n };
	struct iovec parts[] = { { &head, sizeof(head) },
				 { (void *)offsets, size },
				 { (void *)semaphores, size } };
	struct stat st;

	if (!log)
		return;
	if (fstat(file, &st) == 0) {
		head.device = st.st_dev;
		head.inode = st.st_ino;
		if (writev(log->file, parts, ARRAY_SIZE(parts)) ==
		    (ssize_t)(sizeof(head) + 2 * size))
			return;
	}
	log_warning(
		"cannot write %s in the state directory: %m; if the broker is killed, probes may stay",
		log->name);
}

static void read_records(int file, void (*found)(const struct site_record *record, void *data),
			 void *data)
{
	struct head head;

	while (read(file, &head, sizeof(head)) == sizeof(head) && head.n <= SITE_LOG_SITES_MAX) {
		size_t size = 2 * head.n * sizeof(uint64_t);
		_cleanup_free_ uint64_t *offsets = malloc(size + 1);

		/* Its writer was killed before the probes were attached. */
		if (!offsets || read(file, offsets, size) != (ssize_t)size)
			return;
		found(&(struct site_record){ .pid = (pid_t)head.pid,
					     .device = head.device,
					     .inode = head.inode,
					     .n = head.n,
					     .offsets = offsets,
					     .semaphores = offsets + head.n },
		      data);
	}
}

/* Calls the function with the name of each file that has the prefix. */
static void each_file(int directory, const char *prefix,
		      void (*found)(int directory, const char *name, void *data), void *data)
{
	DIR *d = directory < 0 ? NULL : directory_list(directory);
	const struct dirent *entry;

	while (d && (entry = readdir(d)))
		if (!strncmp(entry->d_name, prefix, strlen(prefix)))
			found(directory, entry->d_name, data);
	if (d)
		closedir(d);
}

static void claim(int directory, const char *name, void *data)
{
	char left[64];

	snprintf(left, sizeof(left), SITE_LOG_LEFT "%.40s", name + sizeof(SITE_LOG_PREFIX) - 1);
	if (renameat(directory, name, directory, left) < 0)
		log_debug("cannot rename %s: %m", name);
}

void site_log_claim(int directory)
{
	each_file(directory, SITE_LOG_PREFIX, claim, NULL);
}

struct taking {
	void (*found)(const struct site_record *record, void *data);
	void *data;
};

static void take(int directory, const char *name, void *data)
{
	const struct taking *taking = data;
	int file = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (file >= 0)
		read_records(file, taking->found, taking->data);
	safe_close(file);
	unlinkat(directory, name, 0);
}

void site_log_take(int directory, void (*found)(const struct site_record *record, void *data),
		   void *data)
{
	each_file(directory, SITE_LOG_LEFT, take, &(struct taking){ found, data });
}
