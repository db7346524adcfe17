/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/kernel/counts.h"

#include <bpf/bpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include "include/record_types.h"

/* After the control words and the counters come the rings. */
enum { COUNTERS = 1, RINGS = 2 };

static void add_counters(int fd, struct capture_counts *ret)
{
	const size_t size = RECORD_MAX_CPUS * sizeof(struct record_counters);
	const struct record_counters *counters = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);

	if (counters == MAP_FAILED)
		return;
	for (unsigned i = 0; i < RECORD_MAX_CPUS; i++) {
		ret->records += counters[i].records;
		ret->lost += counters[i].ring_full;
	}
	munmap((void *)counters, size);
}

/* The second page of a ring holds the position up to which the kernel has written. */
static void add_ring(int fd, struct capture_counts *ret)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const unsigned long *position = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, (off_t)page);

	if (position == MAP_FAILED)
		return;
	ret->bytes += __atomic_load_n(position, __ATOMIC_ACQUIRE);
	munmap((void *)position, page);
}

void counts_read(const int *fds, unsigned n_fds, struct capture_counts *ret)
{
	*ret = (struct capture_counts){};
	if (n_fds > COUNTERS)
		add_counters(fds[COUNTERS], ret);
	for (unsigned i = RINGS; i < n_fds; i++)
		add_ring(fds[i], ret);
}

uint64_t counts_skipped(const int *programs, unsigned n)
{
	uint64_t ret = 0;

	for (unsigned i = 0; i < n; i++) {
		struct bpf_prog_info info = {};
		uint32_t size = sizeof(info);

		if (programs[i] >= 0 && bpf_obj_get_info_by_fd(programs[i], &info, &size) >= 0)
			ret += info.recursion_misses;
	}
	return ret;
}
