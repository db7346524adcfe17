/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/record/ring.h"

#include <errno.h>
#include <linux/bpf.h>
#include <sys/mman.h>

#include "lib/base/macro.h"

struct ring {
	size_t size, page;
	unsigned long *consumer;
	unsigned long *producer;
	const char *data;
};

int ring_open(int fd, size_t size, struct ring **ret)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct ring *r = calloc(1, sizeof(*r));
	int error;

	if (!r)
		return -ENOMEM;
	r->size = size;
	r->page = page;
	r->consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (r->consumer == MAP_FAILED) {
		error = -errno;
		free(r);
		return error;
	}
	r->producer = mmap(NULL, page + 2 * size, PROT_READ, MAP_SHARED, fd, (off_t)page);
	if (r->producer == MAP_FAILED) {
		error = -errno;
		munmap(r->consumer, page);
		free(r);
		return error;
	}
	r->data = (const char *)r->producer + page;
	*ret = r;
	return 0;
}

struct ring *ring_close(struct ring *r)
{
	if (!r)
		return NULL;
	munmap(r->consumer, r->page);
	munmap(r->producer, r->page + 2 * r->size);
	free(r);
	return NULL;
}

bool ring_is_empty(const struct ring *r)
{
	return *r->consumer == __atomic_load_n(r->producer, __ATOMIC_ACQUIRE);
}

int ring_consume(struct ring *ring, ring_fn fn, void *data)
{
	unsigned long position = *ring->consumer,
		      end = __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE);
	int r = 0;

	while (position < end && r == 0) {
		const char *at = ring->data + (position & (ring->size - 1));
		uint32_t head = __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE),
			 size = head & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

		if (head & BPF_RINGBUF_BUSY_BIT) {
			r = 1;
			break;
		}
		if (!(head & BPF_RINGBUF_DISCARD_BIT))
			r = fn(at + BPF_RINGBUF_HDR_SZ, size, data);
		position += (BPF_RINGBUF_HDR_SZ + size + 7u) & ~7ul;
	}
	__atomic_store_n(ring->consumer, position, __ATOMIC_RELEASE);
	return r;
}
