/* SPDX-License-Identifier: Apache-2.0 */
/* Stored plans: found again for the same file only, and never trusted further than the file
 * confirms them; and plans as bytes. */
#include "tests/unit/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/broker/plan_store.h"
#include "daemon/plan/proof.h"
#include "daemon/plan/search.h"
#include "daemon/plan/stored.h"
#include "lib/base/macro.h"
#include "tests/unit/elf_file.h"
#include "tests/unit/packed.h"

static const struct probe_row probes[] = {
	{ .symbol = "work", OPEN(OP), .value = { ARGUMENT_1 } },
	{ .symbol = "other*", OPEN(RUN) },
};
static const struct pack pack = { .name = "test", .rows = probes, .n_rows = ARRAY_SIZE(probes) };

static char directory[] = "/tmp/tfprofd-plans-XXXXXX";
/* In it, where plans are stored. */
static char plans[64];

static int open_directory(void)
{
	static bool made;

	if (!made && !mkdtemp(directory))
		return -1;
	made = true;
	snprintf(plans, sizeof(plans), "%s/plans", directory);
	return open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Empties the directory, and returns the number of plans in it. */
static unsigned clear(void)
{
	DIR *d = opendir(plans);
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

/* The plan of a file as the prover makes it, with what is stored in the directory; NULL: it cannot
 * be made. */
static struct plan *planned_with(struct plan_store *store, int fd, bool *ret_known)
{
	const struct pack_set *set = set_of(&pack);
	const char *reason;
	struct plan *plan;
	struct stat st;
	int stored, new;

	if (fstat(fd, &st) < 0)
		return NULL;
	stored = plan_store_open(store, &st, set);
	plan = stored_read(stored, fd, &st, false, set);
	*ret_known = plan;
	safe_close(stored);
	if (plan)
		return plan;
	if (plan_new(fd, -1, set, &plan, &reason) < 0)
		return NULL;
	new = plan_store_create(store);
	if (new >= 0 && stored_write(new, &st, false, plan) >= 0)
		plan_store_keep(store, new, 0, &st, set);
	else
		safe_close(new);
	return plan;
}

/* The offset of the file's work that a new daemon finds, 0: none. */
static uint64_t planned_anew(int fd, bool *ret_known)
{
	_cleanup_(plan_unrefp) struct plan *plan = NULL;
	struct plan_store *store;
	int d = open_directory();

	CHECK_EQ(plan_store_new(d, &store), 0);
	plan = planned_with(store, fd, ret_known);
	plan_store_free(store);
	close(d);
	return plan && plan->n_sites == 1 ? plan->sites[0].offset : 0;
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
	DIR *d = opendir(plans);
	struct dirent *e;

	*ret = 0;
	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			snprintf(ret, size, "%s/%s", plans, e->d_name);
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

TEST(a_directory_that_cannot_be_used_costs_only_time)
{
	_cleanup_(plan_unrefp) struct plan *plan = NULL;
	struct plan_store *store;
	struct elf_file file;
	bool known = true;
	int fd;

	make(&file, 16);
	fd = on_disk(&file, "a");
	CHECK_EQ(plan_store_new(STDIN_FILENO, &store), 0); /* no directory at all */
	plan = planned_with(store, fd, &known);
	CHECK(plan && plan->n_sites == 1 && !known);
	plan_store_free(store);
	close(fd);
}

/* The bytes of the plan of a file with one function. */
static int prove(uint64_t at)
{
	_cleanup_(plan_unrefp) struct plan *plan = NULL;
	struct elf_file file;
	const char *reason;
	int fd, proof = memfd_create("proof", MFD_CLOEXEC);

	make(&file, at);
	fd = on_disk(&file, "a");
	CHECK_EQ(plan_new(fd, -1, set_of(&pack), &plan, &reason), 0);
	strcpy(plan->version, "2.21.0");
	CHECK_EQ(proof_write(proof, plan), 0);
	close(fd);
	return proof;
}

TEST(a_plan_is_the_same_after_it_was_written_and_read)
{
	_cleanup_(plan_unrefp) struct plan *plan = NULL, *sites = NULL;
	int proof = prove(16);

	CHECK_EQ(proof_read(proof, set_of(&pack), &plan), 0);
	CHECK_EQ(proof_read_sites(proof, set_of(&pack), &sites), 0);
	CHECK_EQ(plan->n_sites, 1);
	CHECK_EQ(sites->n_sites, 1);
	CHECK_EQ(plan->sites[0].offset, offset_of(16));
	CHECK_EQ(sites->sites[0].offset, offset_of(16));
	CHECK_STR(plan->sites[0].symbol, "work");
	CHECK_STR(plan->sites[0].site.text, "push %rbp");
	CHECK(!sites->sites[0].symbol);
	CHECK_STR(sites->version, "2.21.0");
	CHECK_EQ(plan_cookie(plan, &plan->sites[0], 3), plan_cookie(sites, &sites->sites[0], 3));
	close(proof);
}

TEST(a_plan_with_any_byte_changed_is_refused_or_within_its_limits)
{
	int proof = prove(16), n_refused = 0;
	uint8_t bytes[4096];
	ssize_t size = pread(proof, bytes, sizeof(bytes), 0);

	for (ssize_t i = 0; i < size; i++)
		for (unsigned bit = 0; bit < 8; bit++) {
			_cleanup_(plan_unrefp) struct plan *plan = NULL;
			uint8_t changed = bytes[i] ^ (uint8_t)(1u << bit);

			CHECK_EQ(pwrite(proof, &changed, 1, i), 1);
			if (proof_read(proof, set_of(&pack), &plan) < 0)
				n_refused++;
			for (unsigned k = 0; plan && k < plan->n_sites; k++) {
				const struct plan_site *s = &plan->sites[k];

				CHECK(s->spec < ARRAY_SIZE(probes));
				CHECK(s->site.class <= SITE_REFUSED);
				CHECK(strlen(s->symbol) < sizeof(bytes));
				plan_cookie(plan, s, 0);
			}
			CHECK_EQ(pwrite(proof, &bytes[i], 1, i), 1);
		}
	CHECK(n_refused > 100);
	close(proof);
}

TEST(a_plan_truncated_anywhere_is_refused)
{
	int proof = prove(16);
	struct stat st;

	CHECK_EQ(fstat(proof, &st), 0);
	for (off_t size = st.st_size - 1; size >= 0; size--) {
		struct plan *plan;

		CHECK_EQ(ftruncate(proof, size), 0);
		CHECK(proof_read(proof, set_of(&pack), &plan) < 0);
	}
	close(proof);
}

TEST(the_number_of_kept_plans_is_bounded)
{
	struct elf_file file;
	bool known;

	make(&file, 16);
	for (unsigned i = 0; i < PLAN_STORE_FILES + 20; i++) {
		char name[16];
		int fd;

		snprintf(name, sizeof(name), "%u", i);
		fd = on_disk(&file, name);
		/* Descriptors stay open, so that no inode is reused. */
		CHECK_EQ(planned_anew(fd, &known), offset_of(16));
	}
	CHECK_EQ(clear(), PLAN_STORE_FILES);
	rmdir(plans);
	rmdir(directory);
}

CHECK_MAIN()
