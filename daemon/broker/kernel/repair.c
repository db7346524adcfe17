/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/kernel/repair.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/broker/kernel/empty_program.h"
#include "daemon/broker/kernel/perf_uprobe.h"
#include "daemon/broker/kernel/site_log.h"
#include "daemon/broker/kernel/uprobe_multi.h"
#include "daemon/broker/mappings.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"
#include "lib/proc/maps.h"

struct repair {
	enum attach_mode mode;
	int program;
	unsigned n_sites;
};

struct file_search {
	const struct site_record *record;
	int fd;
};

static int on_mapping(const struct maps_entry *e, void *data)
{
	struct file_search *search = data;
	uint64_t ignored;
	struct stat st;

	if (!e->executable || !e->inode)
		return 0;
	search->fd = mappings_open(search->record->pid, e->start, e->end, &ignored);
	if (search->fd >= 0 && fstat(search->fd, &st) == 0 && st.st_dev == search->record->device &&
	    st.st_ino == search->record->inode)
		return 1;
	search->fd = safe_close(search->fd);
	return 0;
}

/* The file of the record, which the process has mapped; -1: it has not, or has ended. */
static int open_file(const struct site_record *record)
{
	struct file_search search = { .record = record, .fd = -1 };
	_cleanup_close_ int maps = -1;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/maps", record->pid);
	maps = open(path, O_RDONLY | O_CLOEXEC);
	return maps >= 0 && maps_read(maps, on_mapping, &search) == 1 ? search.fd : -1;
}

/* The kernel finds what it left at a site when the site is probed again, and removes it afterwards.
 */
static int probe_again(const struct repair *repair, const struct site_record *record, int file)
{
	bool any_semaphore = false;
	char path[32];
	int r = 0;

	for (unsigned i = 0; i < record->n; i++)
		any_semaphore |= record->semaphores[i] != 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	if (repair->mode == ATTACH_MULTI) {
		r = uprobe_multi_link(repair->program, path, record->offsets, NULL,
				      any_semaphore ? record->semaphores : NULL, record->n, false,
				      record->pid);
		safe_close(r);
		return MIN(r, 0);
	}
	for (unsigned i = 0; i < record->n && r >= 0; i++) {
		int event = -1;

		r = perf_uprobe_link(repair->program, file, record->offsets[i], 0,
				     record->semaphores[i], false, record->pid, &event);
		safe_close(r);
		safe_close(event);
	}
	return MIN(r, 0);
}

static void on_record(const struct site_record *record, void *data)
{
	struct repair *repair = data;
	_cleanup_close_ int file = open_file(record);
	int r;

	if (file < 0 || !record->n)
		return;
	r = probe_again(repair, record, file);
	if (r >= 0)
		repair->n_sites += record->n;
	else if (r != -ESRCH)
		log_warning_errno(r, "cannot remove probes that were left in process %d: %m",
				  record->pid);
}

struct repair_job {
	enum attach_mode mode;
	int directory, predecessor;
};

static void *repair_thread(void *data)
{
	_cleanup_free_ struct repair_job *job = data;
	_cleanup_close_ int predecessor = job->predecessor;
	struct repair repair = { .mode = job->mode, .program = empty_program_load(job->mode) };

	/* What the kernel leaves is known once it has ended. */
	while (predecessor >= 0 && poll(&(struct pollfd){ predecessor, POLLIN, 0 }, 1, -1) < 0 &&
	       errno == EINTR)
		;
	site_log_take(job->directory, on_record, &repair);
	safe_close(repair.program);
	if (repair.n_sites)
		log_info("%u probes that an earlier broker may have left were removed",
			 repair.n_sites);
	return NULL;
}

void repair_processes(enum attach_mode mode, int directory, int predecessor)
{
	struct repair_job *job = malloc(sizeof(*job));
	pthread_t thread;

	site_log_claim(directory);
	if (job)
		*job = (struct repair_job){ mode, directory, predecessor };
	if (job && pthread_create(&thread, NULL, repair_thread, job) == 0) {
		pthread_detach(thread);
		return;
	}
	free(job);
	safe_close(predecessor);
	log_warning(
		"cannot start a thread: probes that an earlier broker left stay until the next start");
}
