/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into programs with --wrap, for tests/e2e/test_allocations.py: each place of the program
 * that asks for memory, or for a BPF object, can be made to fail once. The file FAULTS_FILE is
 * shared by all processes of the program and the test, as struct faults_table.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SITES 4096

struct faults_table {
	/* The place that fails, as the offset of its call in the program; 0: none. */
	uint32_t armed;
	uint32_t fired;       /* it has failed */
	uint32_t seen[SITES]; /* places that were reached: a hash table; 0: none */
};

extern const char __ehdr_start[];
static struct faults_table *table;

__attribute__((constructor)) static void open_table(void)
{
	const char *path = getenv("FAULTS_FILE");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (table == MAP_FAILED)
		table = NULL;
}

static void note(uint32_t offset)
{
	for (uint32_t i = offset * 2654435761u % SITES;; i = (i + 1) % SITES) {
		uint32_t found = __atomic_load_n(&table->seen[i], __ATOMIC_RELAXED);

		if (found == offset)
			return;
		if (!found && __atomic_compare_exchange_n(&table->seen[i], &found, offset, false,
							  __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return;
		if (found == offset)
			return;
	}
}

static bool fails(const void *caller)
{
	uint32_t offset = (uint32_t)((const char *)caller - __ehdr_start);

	if (!table)
		return false;
	note(offset);
	return __atomic_load_n(&table->armed, __ATOMIC_RELAXED) == offset &&
	       !__atomic_exchange_n(&table->fired, 1, __ATOMIC_SEQ_CST);
}

#define FAILS() fails(__builtin_return_address(0))

/* result: what the function returns on failure. */
#define FAULTY(type, name, result, parameters, arguments)                                          \
	type __real_##name parameters;                                                             \
	type __wrap_##name parameters;                                                             \
	type __wrap_##name parameters                                                              \
	{                                                                                          \
		if (!FAILS())                                                                      \
			return __real_##name arguments;                                            \
		errno = ENOMEM;                                                                    \
		return result;                                                                     \
	}

FAULTY(void *, malloc, NULL, (size_t size), (size))
FAULTY(void *, calloc, NULL, (size_t n, size_t size), (n, size))
FAULTY(void *, realloc, NULL, (void *old, size_t size), (old, size))
FAULTY(void *, reallocarray, NULL, (void *old, size_t n, size_t size), (old, n, size))
FAULTY(char *, strdup, NULL, (const char *text), (text))
FAULTY(char *, strndup, NULL, (const char *text, size_t size), (text, size))
FAULTY(FILE *, open_memstream, NULL, (char **ret, size_t *ret_size), (ret, ret_size))
FAULTY(FILE *, fopen, NULL, (const char *path, const char *mode), (path, mode))
FAULTY(FILE *, fdopen, NULL, (int fd, const char *mode), (fd, mode))
FAULTY(int, __vasprintf_chk, -1, (char **ret, int flag, const char *format, va_list list),
       (ret, flag, format, list))
FAULTY(void *, mmap, MAP_FAILED,
       (void *address, size_t size, int protection, int flags, int fd, off_t offset),
       (address, size, protection, flags, fd, offset))
FAULTY(int, posix_memalign, ENOMEM, (void **ret, size_t alignment, size_t size),
       (ret, alignment, size))
FAULTY(int, pthread_create, EAGAIN,
       (pthread_t * ret, const pthread_attr_t *how, void *(*run)(void *), void *data),
       (ret, how, run, data))

/* libbpf's functions. */
struct bpf_insn;
FAULTY(int, bpf_map_create, -1,
       (int type, const char *name, uint32_t key, uint32_t value, uint32_t n, const void *options),
       (type, name, key, value, n, options))
FAULTY(int, bpf_link_create, -1, (int program, int target, int type, const void *options),
       (program, target, type, options))
FAULTY(int, bpf_prog_load, -1,
       (int type, const char *name, const char *license, const struct bpf_insn *code, size_t n,
	const void *options),
       (type, name, license, code, n, options))
FAULTY(int, bpf_map_update_elem, -1, (int fd, const void *key, const void *value, uint64_t flags),
       (fd, key, value, flags))
FAULTY(int, bpf_iter_create, -1, (int link), (link))

/* bpf(2) and perf_event_open(2), where they are called without libbpf. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	long a[6];
	va_list list;

	va_start(list, number);
	for (unsigned i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if ((number != SYS_bpf && number != SYS_perf_event_open) || !FAILS())
		return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	errno = ENOMEM;
	return -1;
}

/* What asprintf() becomes. */
int __wrap___asprintf_chk(char **ret, int flag, const char *format, ...);
int __real___vasprintf_chk(char **ret, int flag, const char *format, va_list list);
int __wrap___asprintf_chk(char **ret, int flag, const char *format, ...)
{
	va_list list;
	int n;

	if (FAILS()) {
		errno = ENOMEM;
		return -1;
	}
	va_start(list, format);
	n = __real___vasprintf_chk(ret, flag, format, list);
	va_end(list);
	return n;
}
