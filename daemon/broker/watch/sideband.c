/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/watch/sideband.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "lib/base/macro.h"

#define BUFFER_BYTES (128u << 10)
/* Less room than this may not suffice for a mapping with a long name. */
#define ROOM_BYTES 4352
/* A record is at most this long: its size field has 16 bits. */
#define RECORD_BYTES 65536

struct buffer {
	int fd;
	struct perf_event_mmap_page *page;
	/* During a read: the end, the position, and the record there; its size is 0 when all have
	 * been read. */
	uint64_t end, at, time;
	struct perf_event_header next;
};

struct sideband {
	int ready;
	unsigned n;
	char *record; /* one record, made contiguous */
	struct buffer buffers[];
};

/* The part of a PERF_RECORD_MMAP2 before its name. */
struct mmap2_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t address, size, offset;
	uint64_t file[3]; /* device, inode and generation, or build-id */
	uint32_t protection, flags;
	char name[];
};

/* PERF_RECORD_FORK and PERF_RECORD_EXIT. */
struct task_record {
	struct perf_event_header header;
	uint32_t pid, parent_pid, tid, parent_tid;
};

struct comm_record {
	struct perf_event_header header;
	uint32_t pid, tid;
};

/* What sample_id_all appends to every record. */
struct sample_id {
	uint64_t time;
};

static int open_buffer(struct sideband *s, int cpu, struct perf_event_attr *attr)
{
	struct buffer *b = &s->buffers[s->n];
	size_t size = BUFFER_BYTES + (size_t)sysconf(_SC_PAGESIZE);
	struct epoll_event event = { .events = EPOLLIN };

	b->fd = (int)syscall(SYS_perf_event_open, attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (b->fd < 0)
		return errno == ENODEV ? 0 : -errno; /* ENODEV: an offline CPU */
	b->page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
	s->n++;
	if (b->page == MAP_FAILED) {
		b->page = NULL;
		return -errno;
	}
	return epoll_ctl(s->ready, EPOLL_CTL_ADD, b->fd, &event) < 0 ? -errno : 0;
}

int sideband_new(struct sideband **ret)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.disabled = 1,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.mmap = 1,
		.mmap2 = 1,
		.task = 1,
		.comm = 1,
		.comm_exec = 1,
		.watermark = 1,
		.wakeup_watermark =
			/* It is read on a timer, and earlier under load. */
		BUFFER_BYTES / 2,
	};
	struct sideband *s;
	int r = 0;

	s = calloc(1, sizeof(*s) + sizeof(s->buffers[0]) * (size_t)cpus);
	if (!s)
		return -ENOMEM;
	s->record = malloc(RECORD_BYTES + 1);
	s->ready = epoll_create1(EPOLL_CLOEXEC);
	if (!s->record || s->ready < 0)
		r = s->record ? -errno : -ENOMEM;
	for (int cpu = 0; cpu < cpus && r >= 0; cpu++)
		r = open_buffer(s, cpu, &attr);
	if (r < 0) {
		sideband_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct sideband *sideband_free(struct sideband *s)
{
	size_t size = BUFFER_BYTES + (size_t)sysconf(_SC_PAGESIZE);

	if (!s)
		return NULL;
	for (unsigned i = 0; i < s->n; i++) {
		if (s->buffers[i].page)
			munmap(s->buffers[i].page, size);
		close(s->buffers[i].fd);
	}
	safe_close(s->ready);
	free(s->record);
	free(s);
	return NULL;
}

void sideband_start(struct sideband *s)
{
	for (unsigned i = 0; i < s->n; i++)
		ioctl(s->buffers[i].fd, PERF_EVENT_IOC_ENABLE, 0);
}

int sideband_fd(const struct sideband *s)
{
	return s->ready;
}

/* Copies from the circular buffer, which may wrap. */
static void copy_out(const char *data, uint64_t position, void *to, size_t size)
{
	size_t at = position % BUFFER_BYTES, first = MIN(size, BUFFER_BYTES - at);

	memcpy(to, data + at, first);
	memcpy((char *)to + first, data, size - first);
}

static const char *data_of(const struct buffer *b)
{
	return (const char *)b->page + sysconf(_SC_PAGESIZE);
}

/* Reads the header of the next record. */
static void peek(struct buffer *b)
{
	struct sample_id id;

	b->next.size = 0;
	if (b->end - b->at < sizeof(b->next))
		return;
	copy_out(data_of(b), b->at, &b->next, sizeof(b->next));
	if (b->next.size < sizeof(b->next) + sizeof(id) || b->next.size > b->end - b->at) {
		b->next.size = 0;
		b->at = b->end;
		return;
	}
	copy_out(data_of(b), b->at + b->next.size - sizeof(id), &id, sizeof(id));
	b->time = id.time;
}

/* Turns the copied record into an event; false: it is of no interest. */
static bool parse(const struct sideband *s, struct sideband_event *ret)
{
	const struct perf_event_header *header = (const void *)s->record;
	const struct mmap2_record *mapping = (const void *)s->record;
	const struct task_record *task = (const void *)s->record;
	const struct comm_record *comm = (const void *)s->record;
	size_t size = header->size - sizeof(struct sample_id);

	*ret = (struct sideband_event){};
	switch (header->type) {
	case PERF_RECORD_MMAP2:
		ret->kind = SIDEBAND_MAPPED;
		ret->pid = (pid_t)mapping->pid;
		ret->name = mapping->name;
		ret->size = mapping->size;
		return size > sizeof(*mapping);
	case PERF_RECORD_COMM:
		ret->kind = SIDEBAND_EXECUTED;
		ret->pid = (pid_t)comm->pid;
		return size >= sizeof(*comm) && header->misc & PERF_RECORD_MISC_COMM_EXEC;
	case PERF_RECORD_FORK:
		ret->kind = SIDEBAND_FORKED;
		ret->pid = (pid_t)task->pid;
		ret->parent = (pid_t)task->parent_pid;
		return size >= sizeof(*task) && task->pid != task->parent_pid;
	case PERF_RECORD_EXIT:
		ret->kind = SIDEBAND_EXITED;
		ret->pid = (pid_t)task->pid;
		return size >= sizeof(*task) && task->pid == task->tid;
	default:
		return false;
	}
}

/* The buffer whose next record is the oldest; NULL: all have been read. */
static struct buffer *choose_buffer(struct sideband *s)
{
	struct buffer *oldest = NULL;

	for (unsigned i = 0; i < s->n; i++)
		if (s->buffers[i].next.size && (!oldest || s->buffers[i].time < oldest->time))
			oldest = &s->buffers[i];
	return oldest;
}

int sideband_read(struct sideband *s, sideband_fn fn, void *data)
{
	struct sideband_event event;
	struct buffer *b;
	int lost = 0;

	/* What arrives meanwhile is left for the next call: a storm of processes cannot keep the
	 * caller here. */
	for (unsigned i = 0; i < s->n; i++) {
		b = &s->buffers[i];
		b->end = __atomic_load_n(&b->page->data_head, __ATOMIC_ACQUIRE);
		b->at = b->page->data_tail;
		/* The kernel reports a loss with the next record that fits, which may come much
		 * later. */
		lost |= b->end - b->at > BUFFER_BYTES - ROOM_BYTES;
		peek(b);
	}
	/* A process can start on one CPU and end on another. */
	while ((b = choose_buffer(s))) {
		copy_out(data_of(b), b->at, s->record, b->next.size);
		s->record[b->next.size] = 0;
		if (b->next.type == PERF_RECORD_LOST)
			lost = 1;
		else if (parse(s, &event) && event.pid > 0) {
			event.time = b->time;
			fn(&event, data);
		}
		b->at += b->next.size;
		peek(b);
	}
	for (unsigned i = 0; i < s->n; i++)
		__atomic_store_n(&s->buffers[i].page->data_tail, s->buffers[i].at,
				 __ATOMIC_RELEASE);
	return lost;
}
