/* SPDX-License-Identifier: Apache-2.0 */
/* Cached plans: found again for the same file only, and never trusted further than the file
 * confirms them. */
#include "tests/unit/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/plan/plan_cache.h"
#include "lib/base/macro.h"
#include "tests/unit/elf_file.h"
#include "tests/unit/packed.h"

static const struct probe_row probes[] = {
	{ .symbol = "work", OPEN(OP), .value = { ARGUMENT_1 } },
	{ .symbol = "other*", OPEN(RUN) },
};
static const struct pack pack = { .name = "test", .rows = probes, .n_rows = ARRAY_SIZE(probes) };

static char directory[] = "/tmp/tfprofd-cache-XXXXXX";

static int open_directory(void)
{
	static bool made;

	if (!made && !mkdtemp(directory))
		return -1;
	made = true;
	return open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Empties the directory, and returns the number of plans in it. */
static unsigned clear(void)
{
	DIR *d = opendir(directory);
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.') {
			n++;
			unlinkat(dirfd(d), e->d_name, 0);
		}
	if (d)
		closedir(d);
	return n;
}

/* A file with work at code[at], push %rbp everywhere. */
static void make(struct elf_file *file, uint64_t at)
{
	elf_file_make(file);
	memset(file->code, 0x55, sizeof(file->code));
	ELF_FILE_ADD(file, "work", at, STB_GLOBAL);
}

static uint64_t offset_of(uint64_t at)
{
	return offsetof(struct elf_file, code) + at;
}

/* The offset that the cache gives for the file's work, 0: none. */
static uint64_t planned(struct plan_cache *cache, int fd, bool *ret_known)
{
	_cleanup_(plan_unrefp) struct plan *plan = NULL;
	const char *reason;

	if (plan_cache_get(cache, fd, set_of(&pack), true, &plan, ret_known, &reason) < 0 ||
	    plan->n_sites != 1)
		return 0;
	return plan->sites[0].offset;
}

/* What a new daemon finds for the file. */
static uint64_t planned_anew(int fd, bool *ret_known)
{
	struct plan_cache *cache;
	int d = open_directory();
	uint64_t offset;

	CHECK_EQ(plan_cache_new(d, &cache), 0);
	offset = planned(cache, fd, ret_known);
	plan_cache_free(cache);
	close(d);
	return offset;
}

/* Writes a file's bytes under a name on a disk, where files keep their inode; returns a descriptor.
 */
static int on_disk(const struct elf_file *file, const char *name)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s.%s", directory, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	unlink(path);
	CHECK_EQ(pwrite(fd, file, sizeof(*file), 0), (ssize_t)sizeof(*file));
	return fd;
}

/* The only plan in the directory. */
static void plan_path(char *ret, size_t size)
{
	DIR *d = opendir(directory);
	struct dirent *e;

	*ret = 0;
	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			snprintf(ret, size, "%s/%s", directory, e->d_name);
	if (d)
		closedir(d);
}

TEST(a_new_daemon_finds_the_plan_of_a_file_seen_before)
{
	struct elf_file file;
	bool known = true;
	int fd, d = open_directory();

	make(&file, 16);
	fd = on_disk(&file, "a");
	CHECK_EQ(planned_anew(fd, &known), offset_of(16));
	CHECK(!known);
	CHECK_EQ(planned_anew(fd, &known), offset_of(16));
	CHECK(known);
	close(fd);
	close(d);
	CHECK_EQ(clear(), 1);
}

TEST(another_file_with_the_same_build_id_gets_its_own_plan)
{
	struct elf_file file, other;
	bool known = true;
	int fd, copy;

	make(&file, 16);
	make(&other, 48); /* the build-id is the same in both */
	fd = on_disk(&file, "a");
	copy = on_disk(&other, "b");
	CHECK_EQ(planned_anew(fd, &known), offset_of(16));
	CHECK_EQ(planned_anew(copy, &known), offset_of(48));
	CHECK(!known);
	close(fd);
	close(copy);
	clear();
}

TEST(a_file_that_was_changed_in_place_is_planned_again)
{
	struct elf_file file;
	bool known = true;
	int fd;

	make(&file, 16);
	fd = on_disk(&file, "a");
	CHECK_EQ(planned_anew(fd, &known), offset_of(16));
	make(&file, 80);
	usleep(20000); /* a tick of the file system's clock */
	CHECK_EQ(pwrite(fd, &file, sizeof(file), 0), (ssize_t)sizeof(file));
	CHECK_EQ(planned_anew(fd, &known), offset_of(80));
	CHECK(!known);
	close(fd);
	clear();
}

static void spoil(const char *path, const char *how)
{
	char text[4096] = "", *line;
	FILE *f = fopen(path, "r+");
	size_t n;

	CHECK(f != NULL);
	if (!f)
		return;
	n = fread(text, 1, sizeof(text) - 1, f);
	rewind(f);
	if (!strcmp(how, "truncated")) {
		CHECK_EQ(ftruncate(fileno(f), (off_t)n - 5), 0);
	} else if (!strcmp(how, "empty")) {
		CHECK_EQ(ftruncate(fileno(f), 0), 0);
	} else if (!strcmp(how, "one digit")) {
		line = strchr(text, '\n') + 5;
		*line = *line == '1' ? '2' : '1';
		fwrite(text, 1, n, f);
	} else if (!strcmp(how, "garbage")) {
		memset(text, 0xff, n);
		fwrite(text, 1, n, f);
	} else if (!strcmp(how, "huge")) {
		CHECK_EQ(ftruncate(fileno(f), 1ll << 40), 0);
	}
	fclose(f);
}

TEST(a_damaged_plan_is_not_used)
{
	static const char *const ways[] = { "truncated", "empty", "one digit", "garbage", "huge" };
	struct elf_file file;
	char path[512];
	bool known;
	int fd;

	make(&file, 16);
	fd = on_disk(&file, "a");
	for (unsigned i = 0; i < ARRAY_SIZE(ways); i++) {
		known = true;
		CHECK_EQ(planned_anew(fd, &known), offset_of(16));
		plan_path(path, sizeof(path));
		spoil(path, ways[i]);
		known = true;
		CHECK_EQ(planned_anew(fd, &known), offset_of(16));
		CHECK(!known);
		clear();
	}
	close(fd);
}

static uint64_t digest(const char *text, size_t size)
{
	uint64_t h = 0xcbf29ce484222325;

	for (size_t i = 0; i < size; i++)
		h = (h ^ (uint8_t)text[i]) * 0x100000001b3;
	return h;
}

TEST(a_forged_plan_with_a_valid_digest_cannot_name_an_address_outside_code)
{
	static const char *const sites[] = {
		"0 0 ffffffffffffff00 10 0 work",
		"0 0 0 10 0 work",
		"9 0 %x 10 0 work",
		"0 0 %x 0 0 work",
		"0 77 %x 10 0 work",
		"0 0 7fffffffffffffff 7fffffffffffffff 0 work",
		"work",
		"0 0 %x",
	};
	char path[512], text[4096], head[512], line[256];
	struct elf_file file;
	bool known;
	int fd;

	make(&file, 16);
	fd = on_disk(&file, "a");
	CHECK_EQ(planned_anew(fd, &known), offset_of(16));
	plan_path(path, sizeof(path));
	for (unsigned i = 0; i < ARRAY_SIZE(sites); i++) {
		FILE *f = fopen(path, "r");

		CHECK(f && fgets(head, sizeof(head), f));
		if (!f)
			return;
		fclose(f);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(line, sizeof(line), sites[i], (unsigned)offset_of(16));
#pragma GCC diagnostic pop
		snprintf(text, sizeof(text), "%s%s\n", head, line);
		f = fopen(path, "w");
		fprintf(f, "%send %016llx\n", text, (unsigned long long)digest(text, strlen(text)));
		fclose(f);
		known = true;
		CHECK_EQ(planned_anew(fd, &known), offset_of(16));
		CHECK(!known);
	}
	close(fd);
	clear();
}

TEST(a_directory_that_cannot_be_written_costs_only_time)
{
	struct plan_cache *cache;
	struct elf_file file;
	bool known = true;
	int fd, gone;

	make(&file, 16);
	fd = on_disk(&file, "a");
	gone = open_directory();
	CHECK_EQ(plan_cache_new(dup(STDIN_FILENO), &cache), 0); /* no directory at all */
	CHECK_EQ(planned(cache, fd, &known), offset_of(16));
	CHECK_EQ(planned(cache, fd, &known), offset_of(16));
	CHECK(known);
	plan_cache_free(cache);
	close(gone);
	close(fd);
}

TEST(the_number_of_kept_plans_is_bounded)
{
	struct elf_file file;
	bool known;

	make(&file, 16);
	for (unsigned i = 0; i < PLAN_CACHE_FILES + 20; i++) {
		char name[16];
		int fd;

		snprintf(name, sizeof(name), "%u", i);
		fd = on_disk(&file, name);
		/* Descriptors stay open, so that no inode is reused. */
		CHECK_EQ(planned_anew(fd, &known), offset_of(16));
	}
	CHECK_EQ(clear(), PLAN_CACHE_FILES);
	rmdir(directory);
}

CHECK_MAIN()
