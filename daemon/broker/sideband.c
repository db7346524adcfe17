#include "daemon/broker/sideband.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "lib/base/macro.h"

#define BUFFER_BYTES (128u << 10)
/* A record is at most this long: its size field has 16 bits. */
#define RECORD_BYTES 65536

struct buffer {
	int fd;
	struct perf_event_mmap_page *head;
};

struct sideband {
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

int sideband_new(struct sideband **ret)
{
	long page = sysconf(_SC_PAGESIZE), cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.mmap = 1,
		.mmap2 = 1,
		.watermark = 1,
		.wakeup_watermark = BUFFER_BYTES, /* never: it is read on a timer */
	};
	struct sideband *s;
	int r;

	s = calloc(1, sizeof(*s) + sizeof(s->buffers[0]) * (size_t)cpus);
	if (!s)
		return -ENOMEM;
	s->record = malloc(RECORD_BYTES + 1);
	if (!s->record) {
		sideband_free(s);
		return -ENOMEM;
	}
	for (int cpu = 0; cpu < cpus; cpu++) {
		struct buffer *b = &s->buffers[s->n];

		b->fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
		if (b->fd < 0) {
			if (errno == ENODEV) /* an offline CPU */
				continue;
			r = -errno;
			sideband_free(s);
			return r;
		}
		b->head = mmap(NULL, BUFFER_BYTES + (size_t)page, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
		if (b->head == MAP_FAILED) {
			r = -errno;
			close(b->fd);
			sideband_free(s);
			return r;
		}
		s->n++;
	}
	*ret = s;
	return 0;
}

struct sideband *sideband_free(struct sideband *s)
{
	long page = sysconf(_SC_PAGESIZE);

	if (!s)
		return NULL;
	for (unsigned i = 0; i < s->n; i++) {
		munmap(s->buffers[i].head, BUFFER_BYTES + (size_t)page);
		close(s->buffers[i].fd);
	}
	free(s->record);
	free(s);
	return NULL;
}

/* Copies from the circular data, which may wrap. */
static void copy_out(const char *data, uint64_t position, void *to, size_t size)
{
	size_t at = position % BUFFER_BYTES, first = MIN(size, BUFFER_BYTES - at);

	memcpy(to, data + at, first);
	memcpy((char *)to + first, data, size - first);
}

static int read_buffer(struct sideband *s, struct buffer *b, sideband_mapped_fn mapped, void *user)
{
	const char *data = (const char *)b->head + sysconf(_SC_PAGESIZE);
	uint64_t head = __atomic_load_n(&b->head->data_head, __ATOMIC_ACQUIRE), tail = b->head->data_tail;
	int lost = 0;

	while (head - tail >= sizeof(struct perf_event_header)) {
		struct perf_event_header header;
		const struct mmap2_record *m = (const void *)s->record;

		copy_out(data, tail, &header, sizeof(header));
		if (header.size < sizeof(header) || header.size > head - tail)
			break;
		if (header.type == PERF_RECORD_LOST)
			lost = 1;
		if (header.type == PERF_RECORD_MMAP2 && header.size > sizeof(*m)) {
			copy_out(data, tail, s->record, header.size);
			s->record[header.size] = 0;
			mapped((pid_t)m->pid, m->name, m->size, user);
		}
		tail += header.size;
	}
	__atomic_store_n(&b->head->data_tail, tail, __ATOMIC_RELEASE);
	return lost;
}

int sideband_read(struct sideband *s, sideband_mapped_fn mapped, void *data)
{
	int lost = 0;

	for (unsigned i = 0; i < s->n; i++)
		lost |= read_buffer(s, &s->buffers[i], mapped, data);
	return lost;
}
