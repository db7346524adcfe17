/* SPDX-License-Identifier: Apache-2.0 */
/* The hash table, growing arrays, binary search, the reading of maps, and the code ranges of a
 * file. */
#include "tests/unit/check.h"

#include <elf.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/broker/kernel/code_range.h"
#include "lib/base/array.h"
#include "lib/base/macro.h"
#include "lib/base/map.h"
#include "lib/base/parallel.h"
#include "lib/base/search.h"
#include "lib/proc/maps.h"

TEST(a_map_finds_every_key_again)
{
	struct map map = {};
	unsigned wrong = 0;

	CHECK(map_get(&map, 1) == NULL);
	for (uint64_t i = 0; i < 10000; i++)
		CHECK_EQ(map_put(&map, i * 0x100000, i), 0);
	for (uint64_t i = 0; i < 10000; i++) {
		uint64_t *value = map_get(&map, i * 0x100000);

		wrong += !value || *value != i;
	}
	CHECK_EQ(wrong, 0);
	CHECK_EQ(map_put(&map, 0, 77), 0);
	CHECK_EQ(*map_get(&map, 0), 77);
	CHECK(map_get(&map, 12345) == NULL);
	map_done(&map);
}

static int memory_file(const void *bytes, size_t size)
{
	int fd = memfd_create("test", 0);

	CHECK(write(fd, bytes, size) == (ssize_t)size);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static struct maps_entry entries[8];
static char paths[8][128];
static unsigned n_entries;

static int on_entry(const struct maps_entry *e, void *data)
{
	if (n_entries < ARRAY_SIZE(entries)) {
		entries[n_entries] = *e;
		snprintf(paths[n_entries++], sizeof(paths[0]), "%s", e->path);
	}
	return 0;
}

TEST(maps_are_read_with_spaces_deleted_files_and_nonsense)
{
	static const char text[] =
		"7f0000000000-7f0000001000 r-xp 00002000 fe:01 42                 /lib/with space.so\n"
		"nonsense\n"
		"7f0000002000-7f0000003000 rw-p 00000000 00:00 0 \n"
		"7f0000004000-7f0000005000 r-xp 00000000 fe:01 43    /lib/old.so (deleted)\n"
		"cut";
	int fd = memory_file(text, sizeof(text) - 1);

	n_entries = 0;
	CHECK_EQ(maps_read(fd, on_entry, NULL), 0);
	CHECK_EQ(n_entries, 3);
	CHECK_STR(paths[0], "/lib/with space.so");
	CHECK(entries[0].executable && entries[0].inode == 42 && entries[0].offset == 0x2000);
	CHECK(!entries[1].executable && entries[1].inode == 0);
	CHECK_STR(paths[2], "/lib/old.so");
	CHECK(entries[2].deleted);
	close(fd);
}

TEST(a_line_longer_than_any_path_does_not_hide_the_next)
{
	char *text = malloc(100000);
	static const char last[] =
		"\n7f0000000000-7f0000001000 r-xp 00000000 fe:01 42    /lib/last.so\n";
	int fd;

	memset(text, 'x', 90000);
	memcpy(text + 90000, last, sizeof(last));
	fd = memory_file(text, 90000 + sizeof(last) - 1);
	n_entries = 0;
	CHECK_EQ(maps_read(fd, on_entry, NULL), 0);
	CHECK_EQ(n_entries, 1);
	CHECK_STR(paths[0], "/lib/last.so");
	close(fd);
	free(text);
}

struct elf_file {
	Elf64_Ehdr file;
	Elf64_Phdr headers[3];
};

static struct elf_file small_elf(void)
{
	struct elf_file f = { .file = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64 },
					.e_phoff = sizeof(Elf64_Ehdr),
					.e_phentsize = sizeof(Elf64_Phdr),
					.e_phnum = 3 } };

	f.headers[0] =
		(Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R, .p_offset = 0, .p_filesz = 100 };
	f.headers[1] = (Elf64_Phdr){
		.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = 100, .p_filesz = 50
	};
	f.headers[2] = (Elf64_Phdr){
		.p_type = PT_LOAD, .p_flags = PF_X, .p_offset = UINT64_MAX - 10, .p_filesz = 50
	};
	return f;
}

TEST(only_executable_parts_of_a_file_are_code)
{
	struct elf_file f = small_elf();
	struct code_ranges ranges;
	int fd = memory_file(&f, sizeof(f));

	CHECK_EQ(code_ranges_read(fd, &ranges), 0);
	CHECK_EQ(ranges.n, 1);
	CHECK(!code_ranges_contain(&ranges, 99));
	CHECK(code_ranges_contain(&ranges, 100));
	CHECK(code_ranges_contain(&ranges, 149));
	CHECK(!code_ranges_contain(&ranges, 150));
	CHECK(!code_ranges_contain(&ranges, UINT64_MAX));
	close(fd);
}

TEST(malformed_program_headers_give_no_code)
{
	struct elf_file f = small_elf();
	struct code_ranges ranges;
	int fd;

	f.file.e_phoff = UINT64_MAX - 3;
	fd = memory_file(&f, sizeof(f));
	CHECK_EQ(code_ranges_read(fd, &ranges), -ENOEXEC);
	close(fd);
	f = small_elf();
	f.file.e_phnum = UINT16_MAX;
	f.headers[1].p_flags = 0;
	fd = memory_file(&f, sizeof(f));
	CHECK_EQ(code_ranges_read(fd, &ranges), -ENOEXEC);
	close(fd);
	fd = memory_file(&f, 10);
	CHECK_EQ(code_ranges_read(fd, &ranges), -ENOEXEC);
	close(fd);
}

TEST(an_array_grows_and_keeps_what_it_has)
{
	size_t allocated = 0, n = 0;
	int *list = NULL;

	for (; n < 1000; n++) {
		CHECK_EQ(array_reserve(&list, n, &allocated, sizeof(list[0]), 1), 0);
		CHECK(allocated > n);
		list[n] = (int)n;
	}
	for (size_t i = 0; i < n; i++)
		CHECK_EQ(list[i], (int)i);
	CHECK_EQ(array_reserve(&list, n, &allocated, sizeof(list[0]), 5000), 0);
	CHECK(allocated >= n + 5000);
	/* More than there can be: everything stays as it was. */
	CHECK_EQ(array_reserve(&list, n, &allocated, sizeof(list[0]), SIZE_MAX / 2), -ENOMEM);
	CHECK_EQ(array_reserve(&list, n, &allocated, sizeof(list[0]), SIZE_MAX - n), -ENOMEM);
	CHECK_EQ(list[999], 999);
	free(list);
}

static void count_piece(unsigned i, void *counts)
{
	__atomic_fetch_add((unsigned *)counts + i, 1, __ATOMIC_RELAXED);
}

TEST(each_piece_of_work_is_done_once_however_many_threads_there_are)
{
	unsigned counts[100];

	for (unsigned n_threads = 0; n_threads < 2 * PARALLEL_MAX; n_threads++) {
		memset(counts, 0, sizeof(counts));
		parallel_run(n_threads, ARRAY_SIZE(counts), count_piece, counts);
		for (unsigned i = 0; i < ARRAY_SIZE(counts); i++)
			CHECK_EQ(counts[i], 1);
	}
	parallel_run(4, 0, count_piece, counts);
	CHECK_EQ(counts[0], 1);
}

TEST(a_binary_search_finds_the_first_that_is_not_before)
{
	static const unsigned values[] = { 1, 3, 3, 3, 7, 9 };

	for (unsigned wanted = 0; wanted < 12; wanted++)
		for (size_t n = 0; n <= ARRAY_SIZE(values); n++) {
			size_t first = 0;

			while (first < n && values[first] < wanted)
				first++;
			CHECK_EQ(SEARCH_FIRST(n, i, values[i] < wanted), first);
		}
}

CHECK_MAIN()
