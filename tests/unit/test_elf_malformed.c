/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "daemon/broker/kernel/code_range.h"
#include "daemon/plan/plan.h"
#include "daemon/plan/search.h"
#include "daemon/plan/version.h"
#include "lib/base/macro.h"
#include "lib/elf/lookup.h"
#include "lib/elf/rtti.h"
#include "lib/elf/symbols.h"
#include "lib/elf/usdt.h"
#include "tests/unit/check.h"
#include "tests/unit/packed.h"
#include "tests/unit/target_file.h"

/* Seconds of this thread's CPU time that one file may take in all readers together, with sanitizers
 * on a slow machine. */
#define SECONDS_MAX 20
/* Growth of the process that all files of a test together may cause. */
#define KILOBYTES_MAX (192 << 10)
/* Ends a test that hangs. */
#define ALARM_SECONDS 280

#define RUN "_ZN3run3RunEv"

/* Read by the address sanitizer: freed memory does not count as held and is cheap to allocate
 * again, and strchr need not be strlen. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=4:clear_shadow_mmap_threshold=1000000000:intercept_strchr=0";
}

static bool is_any(const char *s, uint32_t size)
{
	return size > 0;
}

static const struct probe_row probes[] = {
	{ .symbol = RUN, OPEN(RUN), .action = ACTION_ENTRY, .value = { ARGUMENT_1 } },
	{ .symbol = "*e_of_*", CLOSE(RUN), .action = ACTION_ENTRY },
	{ .symbol = "*_get_*", CLOSE(RUN), .action = ACTION_ENTRY },
};

static const struct pack pack = {
	.name = "test",
	.version_function = TARGET_FILE_VERSION_FUNCTION,
	.rows = probes,
	.n_rows = ARRAY_SIZE(probes),
	.names = { .is_name = is_any, .is_type = is_any },
};

/* What each reader of a target's file returned for one file; n_: the number of its results. */
struct outcome {
	int open, symbols, lookup, data, version, plan, ranges, usdt, rtti;
	unsigned n_symbols, n_sites, n_usdt, n_ranges;
	char release[64];
};

static int on_symbol(const struct symbol_match *match, void *data)
{
	struct outcome *o = data;

	CHECK(match->size > 0 && match->name[0]);
	o->n_symbols++;
	return 0;
}

static int on_usdt(const struct usdt_site *site, void *data)
{
	struct outcome *o = data;

	CHECK(strlen(site->provider) + strlen(site->name) + strlen(site->text) <= USDT_NOTES_MAX);
	CHECK(site->n_arguments <= USDT_ARGUMENTS_MAX && site->semaphore % 2 == 0);
	o->n_usdt++;
	return 0;
}

/* Queries some of the classes. */
static int on_class(const struct rtti_class *class, void *data)
{
	unsigned *n = data;

	CHECK(class->typeinfo && class->n_slots <= RTTI_SLOTS_MAX);
	return ++*n == 100;
}

/* An error is negative, and has a human-readable reason; without an error nothing more is
 * promised. */
static void check_result(int r, const char *reason)
{
	CHECK(r <= 0 && r >= -4095);
	CHECK(r == 0 || (reason && *reason));
}

static void examine_plan(int fd, struct outcome *o)
{
	_cleanup_(plan_unrefp) struct plan *plan = NULL;
	const char *reason = NULL;

	o->plan = plan_new(fd, -1, set_of(&pack), &plan, &reason);
	check_result(o->plan, reason);
	CHECK(!o->plan == !!plan);
	o->n_sites = plan ? plan->n_sites : 0;
}

static void examine_classes(const struct elf_image *image, struct outcome *o)
{
	_cleanup_(elf_rtti_freep) struct rtti *rtti = NULL;
	const char *reason = NULL;
	unsigned n = 0;

	o->rtti = elf_rtti_open(image, &rtti, &reason);
	check_result(o->rtti, reason);
	if (rtti)
		CHECK(elf_rtti_find(rtti, NULL, false, on_class, &n) >= 0);
}

static void examine_image(int fd, struct outcome *o)
{
	static const struct symbol_pattern patterns[] = { { RUN }, { "*e*a*e*" }, { "??*" } };
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	const char *reason = NULL;
	uint64_t address, offset;

	o->open = elf_image_open(fd, &image, &reason);
	check_result(o->open, reason);
	CHECK(!o->open == !!image);
	if (!image)
		return;
	CHECK(strlen(elf_image_build_id(image)) <= 128);
	reason = NULL;
	o->symbols =
		elf_symbols_match(image, patterns, ARRAY_SIZE(patterns), on_symbol, o, &reason);
	check_result(o->symbols, reason);
	o->lookup = elf_lookup(image, TARGET_FILE_VERSION_FUNCTION, &address);
	o->data = elf_data_offset(image, TARGET_FILE_DATA_ADDRESS, &offset);
	o->version = version_read(image, &pack, o->release, sizeof(o->release));
	CHECK(o->lookup <= 0 && o->data <= 0 && o->version <= 0);
	CHECK(memchr(o->release, 0, sizeof(o->release)));
	reason = NULL;
	o->usdt = elf_usdt_match(image, NULL, "*", on_usdt, o, &reason);
	check_result(o->usdt, reason);
	examine_classes(image, o);
}

/* All that reads a target's file. */
static struct outcome examine(int fd)
{
	struct timespec before, after;
	struct code_ranges ranges = {};
	struct outcome o = {};

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
	examine_image(fd, &o);
	examine_plan(fd, &o);
	o.ranges = code_ranges_read(fd, &ranges);
	CHECK(o.ranges <= 0 && ranges.n <= CODE_RANGES_MAX);
	o.n_ranges = o.ranges ? 0 : ranges.n;
	for (unsigned i = 0; i < o.n_ranges; i++)
		CHECK(ranges.range[i].start <= ranges.range[i].end);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
	CHECK(after.tv_sec - before.tv_sec < SECONDS_MAX);
	return o;
}

static struct outcome examine_bytes(const void *bytes, size_t size)
{
	_cleanup_close_ int fd = elf_file_write(bytes, size);

	CHECK(fd >= 0);
	return examine(fd);
}

static long peak_kilobytes(void)
{
	struct rusage usage = {};

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

static void print_outcome(const char *what, const struct outcome *o)
{
	fprintf(stderr,
		"  %s: open %d, symbols %d (%u), lookup %d, data %d, version %d (%s), plan %d (%u), ranges %d (%u), usdt %d (%u)\n",
		what, o->open, o->symbols, o->n_symbols, o->lookup, o->data, o->version, o->release,
		o->plan, o->n_sites, o->ranges, o->n_ranges, o->usdt, o->n_usdt);
}

static bool is_intact(const struct outcome *o)
{
	return !o->open && !o->symbols && !o->lookup && !o->data && !o->version && !o->plan &&
	       !o->ranges && !o->usdt && o->n_symbols == 4 && o->n_sites == 2 && o->n_usdt == 2 &&
	       o->n_ranges == 1 && !strcmp(o->release, TARGET_FILE_VERSION);
}

TEST(the_file_that_is_spoilt_is_valid)
{
	struct target_file file;
	struct outcome o;

	target_file_make(&file);
	o = examine_bytes(&file, sizeof(file));
	if (!is_intact(&o))
		print_outcome("valid", &o);
	CHECK(is_intact(&o));
}

#define TOO_FAR (UINT64_MAX)

static struct target_file f;
static Elf64_Ehdr *const header = &f.elf.header;
static Elf64_Phdr *const segments = f.segments;
static Elf64_Shdr *const sections = f.sections;

/* Each corrupts the valid file in f and states the expected result; everything else stays as in a
 * valid file. */
struct malformed {
	const char *what;
	void (*spoil)(void);
	int open, symbols, lookup, data, plan, ranges, usdt;
};

#define SPOIL(name, ...)                                                                           \
	static void spoil_##name(void)                                                             \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}

SPOIL(magic, header->e_ident[0] = 0x7e)
SPOIL(class, header->e_ident[EI_CLASS] = ELFCLASS32)
SPOIL(order, header->e_ident[EI_DATA] = ELFDATA2MSB)
SPOIL(machine, header->e_machine = EM_AARCH64)
SPOIL(type, header->e_type = ET_REL)
SPOIL(sections_at_16_eib, header->e_shoff = TOO_FAR)
SPOIL(sections_wrap, header->e_shoff = TOO_FAR - sizeof(Elf64_Shdr) * TARGET_FILE_SECTIONS + 1)
SPOIL(sections_65535, header->e_shnum = 65535)
SPOIL(sections_2_60, header->e_shnum = 0; sections[0].sh_size = 1ull << 60)
SPOIL(section_size, header->e_shentsize = 0)
SPOIL(segments_65535, header->e_phnum = 0xffff)
SPOIL(segments_at_16_eib, header->e_phoff = TOO_FAR)
SPOIL(segment_size, header->e_phentsize = 0)
SPOIL(code_at_16_eib, segments[ELF_FILE_SEGMENT_CODE].p_offset = TOO_FAR)
SPOIL(code_wraps, segments[ELF_FILE_SEGMENT_CODE].p_vaddr = TOO_FAR - 100)
SPOIL(code_overlaps, segments[ELF_FILE_SEGMENT_DATA] = segments[ELF_FILE_SEGMENT_CODE];
      segments[ELF_FILE_SEGMENT_DATA].p_vaddr -= 16; segments[ELF_FILE_SEGMENT_DATA].p_offset += 16;
      segments[ELF_FILE_SEGMENT_DATA].p_filesz -= 16)
SPOIL(no_code, segments[ELF_FILE_SEGMENT_CODE].p_flags = PF_R)
SPOIL(symbols_at_16_eib, sections[ELF_FILE_SYMTAB].sh_offset = TOO_FAR)
SPOIL(symbols_overflow, sections[ELF_FILE_SYMTAB].sh_size = TOO_FAR - TOO_FAR % sizeof(Elf64_Sym))
SPOIL(symbols_entry, sections[ELF_FILE_SYMTAB].sh_entsize = 0)
SPOIL(symbols_to_themselves, sections[ELF_FILE_SYMTAB].sh_link = ELF_FILE_SYMTAB)
SPOIL(symbols_to_nothing, sections[ELF_FILE_SYMTAB].sh_link = UINT32_MAX)
SPOIL(dynamic_to_themselves, sections[ELF_FILE_DYNSYM].sh_link = ELF_FILE_DYNSYM;
      f.elf.dynamic[2].st_info = STT_FUNC; f.elf.dynamic[2].st_shndx = 1;
      f.elf.dynamic[2].st_size = 1)
SPOIL(names_at_16_eib, sections[ELF_FILE_STRTAB].sh_offset = TOO_FAR - 7)
SPOIL(names_overflow, sections[ELF_FILE_STRTAB].sh_size = TOO_FAR)
SPOIL(names_without_end, memset(f.elf.strings, 'a', sizeof(f.elf.strings)))
SPOIL(name_out_of_range, f.elf.symbols[1].st_name = UINT32_MAX)
SPOIL(dynamic_name_out_of_range, f.elf.dynamic[1].st_name = sizeof(f.elf.dynamic_strings);
      f.elf.dynamic[1].st_value++)
SPOIL(symbol_far, f.elf.symbols[2].st_value = TOO_FAR)
SPOIL(symbol_huge, f.elf.symbols[2].st_size = TOO_FAR)
SPOIL(hash_no_buckets, f.hash.n_buckets = 0)
SPOIL(hash_many_buckets, f.hash.n_buckets = UINT32_MAX)
SPOIL(hash_bloom, f.hash.n_bloom = UINT32_MAX)
SPOIL(hash_bucket, f.hash.bucket = UINT32_MAX)
SPOIL(hash_other, f.hash.chain ^= 2)
SPOIL(hash_at_16_eib, sections[TARGET_FILE_HASH].sh_offset = TOO_FAR - 3)
SPOIL(note_name, f.notes[0].head.n_namesz = UINT32_MAX)
SPOIL(note_description, f.notes[0].head.n_descsz = UINT32_MAX - 2)
SPOIL(notes_at_16_eib, sections[TARGET_FILE_NOTES].sh_offset = TOO_FAR - 3)
SPOIL(section_names, sections[TARGET_FILE_NAMES].sh_size = TOO_FAR)
SPOIL(section_name, sections[TARGET_FILE_NOTES].sh_name = UINT32_MAX)
SPOIL(build_id, f.elf.note.n_namesz = UINT32_MAX; f.elf.note.n_descsz = UINT32_MAX)
SPOIL(build_id_segment, segments[ELF_FILE_SEGMENT_NOTE].p_offset = TOO_FAR;
      segments[ELF_FILE_SEGMENT_NOTE].p_filesz = 2)
SPOIL(data_wraps, sections[TARGET_FILE_DATA].sh_offset = TOO_FAR;
      sections[TARGET_FILE_DATA].sh_size = TOO_FAR)
SPOIL(data_segment, segments[ELF_FILE_SEGMENTS].p_vaddr = TOO_FAR - 3)

#define REFUSED(r) .open = (r), .plan = (r)
#define NAMELESS(r) .symbols = (r), .plan = (r)

static const struct malformed malformed[] = {
	{ "no magic", spoil_magic, REFUSED(-ENOEXEC), .ranges = -ENOEXEC },
	{ "a file for 32 bit", spoil_class, REFUSED(-EOPNOTSUPP), .ranges = -ENOEXEC },
	{ "a big-endian file", spoil_order, REFUSED(-EOPNOTSUPP) },
	{ "a file for another machine", spoil_machine, REFUSED(-EOPNOTSUPP) },
	{ "an object file", spoil_type, REFUSED(-EOPNOTSUPP) },
	{ "sections at 16 EiB - 1", spoil_sections_at_16_eib, REFUSED(-EBADMSG) },
	{ "sections that end past 16 EiB", spoil_sections_wrap, REFUSED(-EBADMSG) },
	{ "65,535 sections in a small file", spoil_sections_65535, REFUSED(-EBADMSG) },
	{ "2^60 sections", spoil_sections_2_60, REFUSED(-E2BIG) },
	{ "section headers of 0 bytes", spoil_section_size, REFUSED(-EBADMSG) },
	{ "0xffff program headers", spoil_segments_65535, REFUSED(-E2BIG), .ranges = 0 },
	{ "program headers at 16 EiB - 1", spoil_segments_at_16_eib, REFUSED(-EBADMSG),
	  .ranges = -ENOEXEC },
	{ "program headers of 0 bytes", spoil_segment_size, REFUSED(-EBADMSG), .ranges = -ENOEXEC },
	{ "code at 16 EiB - 1", spoil_code_at_16_eib, .ranges = -ENOEXEC },
	{ "code whose addresses wrap", spoil_code_wraps },
	{ "overlapping code", spoil_code_overlaps },
	{ "no code", spoil_no_code, .ranges = -ENOEXEC },
	{ "a symbol table at 16 EiB - 1", spoil_symbols_at_16_eib, NAMELESS(-EBADMSG) },
	{ "a symbol table of 16 EiB", spoil_symbols_overflow, NAMELESS(-EBADMSG) },
	{ "symbols of 0 bytes", spoil_symbols_entry, NAMELESS(-EBADMSG) },
	{ "a symbol table whose names are itself", spoil_symbols_to_themselves,
	  NAMELESS(-EBADMSG) },
	{ "a symbol table without names", spoil_symbols_to_nothing, NAMELESS(-EBADMSG) },
	{ "a dynamic symbol table whose names are itself", spoil_dynamic_to_themselves,
	  NAMELESS(-EBADMSG), .lookup = -ENOENT },
	{ "names at 16 EiB - 8", spoil_names_at_16_eib, NAMELESS(-EBADMSG) },
	{ "names of 16 EiB", spoil_names_overflow, NAMELESS(-EBADMSG) },
	{ "names without end", spoil_names_without_end, NAMELESS(-EBADMSG) },
	{ "a name out of range", spoil_name_out_of_range, NAMELESS(-EBADMSG) },
	{ "a dynamic name out of range", spoil_dynamic_name_out_of_range, NAMELESS(-EBADMSG),
	  .lookup = -ENOENT },
	{ "a function at 16 EiB - 1", spoil_symbol_far },
	{ "a function of 16 EiB", spoil_symbol_huge },
	{ "a hash table without buckets", spoil_hash_no_buckets, .lookup = -ENOENT },
	{ "a hash table of 4 G buckets", spoil_hash_many_buckets, .lookup = -EBADMSG },
	{ "a hash table with a filter of 32 GiB", spoil_hash_bloom, .lookup = -EBADMSG },
	{ "a bucket out of range", spoil_hash_bucket, .lookup = -EBADMSG },
	{ "another hash than that of the name", spoil_hash_other, .lookup = -ENOENT },
	{ "a hash table at 16 EiB - 4", spoil_hash_at_16_eib, .lookup = -EBADMSG },
	{ "a note with a name of 4 GiB", spoil_note_name, .usdt = -EBADMSG },
	{ "a note with a description of 4 GiB", spoil_note_description, .usdt = -EBADMSG },
	{ "notes at 16 EiB - 4", spoil_notes_at_16_eib, .usdt = -EBADMSG },
	{ "section names of 16 EiB", spoil_section_names },
	{ "a section name out of range", spoil_section_name },
	{ "a build-id of 4 GiB", spoil_build_id },
	{ "notes of a segment at 16 EiB - 1", spoil_build_id_segment },
	{ "data at 16 EiB - 1", spoil_data_wraps },
	{ "data whose addresses wrap", spoil_data_segment },
};

TEST(each_malformed_file_is_read_correctly_or_refused_with_a_reason)
{
	long before = peak_kilobytes();

	alarm(ALARM_SECONDS);
	for (size_t i = 0; i < ARRAY_SIZE(malformed); i++) {
		const struct malformed *m = &malformed[i];
		struct target_file valid;
		struct outcome o;
		int failures = check_failures;

		target_file_make(&valid);
		f = valid;
		m->spoil();
		CHECK(memcmp(&f, &valid, sizeof(f)));
		o = examine_bytes(&f, sizeof(f));
		CHECK_EQ(o.open, m->open);
		CHECK_EQ(o.plan, m->plan);
		CHECK_EQ(o.ranges, m->ranges);
		CHECK_EQ(o.symbols, m->symbols);
		CHECK_EQ(o.lookup, m->lookup);
		CHECK_EQ(o.data, m->data);
		CHECK_EQ(o.usdt, m->usdt);
		/* No release other than the true one is ever read. */
		CHECK(o.open || !strcmp(o.release, TARGET_FILE_VERSION) ||
		      !strncmp(o.release, "build-id:", 9));
		if (check_failures > failures)
			print_outcome(m->what, &o);
	}
	CHECK(peak_kilobytes() - before < KILOBYTES_MAX);
	alarm(0);
}

TEST(functions_and_probes_outside_code_are_not_reported)
{
	struct outcome o;

	target_file_make(&f);
	spoil_no_code();
	o = examine_bytes(&f, sizeof(f));
	CHECK_EQ(o.n_symbols + o.n_sites + o.n_usdt, 0);
	target_file_make(&f);
	spoil_code_wraps();
	o = examine_bytes(&f, sizeof(f));
	CHECK_EQ(o.n_symbols + o.n_sites + o.n_usdt, 0);
	target_file_make(&f);
	spoil_symbol_far();
	o = examine_bytes(&f, sizeof(f));
	CHECK_EQ(o.n_symbols, 2);
}

TEST(a_file_truncated_anywhere_is_read_correctly_or_refused)
{
	alarm(ALARM_SECONDS);
	target_file_make(&f);
	for (size_t size = 0; size < sizeof(f); size++) {
		struct outcome o = examine_bytes(&f, size);

		/* The section headers come last. */
		CHECK(o.open < 0 && o.plan < 0);
		CHECK_EQ(!o.ranges,
			 size >= offsetof(struct target_file, segments) + 2 * sizeof(Elf64_Phdr));
	}
	/* Without section headers the file may end anywhere behind its program headers. */
	header->e_shoff = 0;
	for (size_t size = offsetof(struct target_file, segments) + sizeof(f.segments);
	     size < sizeof(f); size++) {
		struct outcome o = examine_bytes(&f, size);

		CHECK(!o.open && !o.symbols && !o.usdt && !o.plan && !o.n_symbols && !o.n_usdt);
	}
	alarm(0);
}

struct shrinking {
	int fd;
	bool stop;
};

static void *shrink(void *data)
{
	struct shrinking *s = data;
	unsigned seed = 1;

	for (unsigned i = 1; !__atomic_load_n(&s->stop, __ATOMIC_RELAXED); i++) {
		/* Now and then it stays whole for long enough to be read. */
		if (i % 64 == 0)
			poll(NULL, 0, 1);
		seed = seed * 1103515245 + 12345;
		if (ftruncate(s->fd, (off_t)(seed >> 8) % (off_t)sizeof(f)) < 0 ||
		    pwrite(s->fd, &f, sizeof(f), 0) < 0)
			break;
	}
	return NULL;
}

TEST(a_file_that_changes_its_size_while_it_is_read_is_read_correctly_or_refused)
{
	struct shrinking s = {};
	pthread_t thread;
	int n_right = 0, n_refused = 0;
	time_t begin = time(NULL);

	alarm(ALARM_SECONDS);
	target_file_make(&f);
	s.fd = elf_file_write(&f, sizeof(f));
	CHECK(s.fd >= 0);
	CHECK_EQ(pthread_create(&thread, NULL, shrink, &s), 0);
	/* On a busy machine the other thread may not run for a while. */
	for (int i = 0; i < 2000 || ((!n_right || !n_refused) && time(NULL) - begin < 30); i++) {
		struct outcome o = examine(s.fd);

		o.open || o.symbols || o.plan || o.usdt ? n_refused++ : n_right++;
	}
	__atomic_store_n(&s.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	CHECK(n_right > 0);
	CHECK(n_refused > 0);
	close(s.fd);
	alarm(0);
}

TEST(a_pipe_or_device_is_refused_without_blocking)
{
	int pipes[2] = { -1, -1 }, sockets[2] = { -1, -1 };
	char name[] = "/tmp/test_elf_malformed.XXXXXX";
	int fds[7];

	CHECK(mkdtemp(name));
	CHECK_EQ(pipe(pipes), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	fds[0] = open(name, O_RDONLY | O_CLOEXEC);
	rmdir(name);
	CHECK_EQ(mkfifo(name, 0600), 0);
	fds[1] = open(name, O_RDWR | O_CLOEXEC);
	unlink(name);
	fds[2] = pipes[0];
	fds[3] = sockets[0];
	fds[4] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	fds[5] = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	fds[6] = -1;
	alarm(10);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		struct outcome o;

		CHECK(fds[i] >= 0 || i == ARRAY_SIZE(fds) - 1);
		o = examine(fds[i]);
		CHECK(o.open < 0 && o.plan < 0 && o.ranges < 0);
		safe_close(fds[i]);
	}
	alarm(0);
	safe_close(pipes[1]);
	safe_close(sockets[1]);
}

/* A file of which the valid one is the beginning; the rest reads as zeros until it is written. */
static int make_large(uint64_t size)
{
	int fd = elf_file_write(&f, sizeof(f));

	CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	return fd;
}

static void write_at(int fd, uint64_t offset, const void *bytes, size_t size)
{
	CHECK_EQ(pwrite(fd, bytes, size, (off_t)offset), size);
}

TEST(huge_string_tables_that_overlap_are_bounded)
{
	const uint64_t file_size = 8ull << 30, strings_size = UINT32_MAX;
	_cleanup_close_ int fd = -1;
	long before = peak_kilobytes();
	struct outcome o;

	alarm(ALARM_SECONDS);
	target_file_make(&f);
	for (int i = ELF_FILE_STRTAB; i <= ELF_FILE_DYNSTR; i += 2) {
		sections[i].sh_offset = i;
		sections[i].sh_size = strings_size;
	}
	for (uint32_t i = 1; i < 8; i++) {
		f.elf.symbols[i] = f.elf.symbols[1];
		f.elf.symbols[i].st_name = UINT32_MAX / 8 * i;
	}
	fd = make_large(file_size);
	o = examine(fd);
	CHECK_EQ(o.open, 0);
	CHECK_EQ(o.symbols, 0);
	CHECK(peak_kilobytes() - before < KILOBYTES_MAX);
	alarm(0);
}

/* count functions, all at the same code, whose names begin at the same long string, distance bytes
 * after each other. */
static int make_symbols(uint32_t count, uint32_t distance)
{
	const uint64_t at = sizeof(f), size = count * sizeof(Elf64_Sym), names = at + size;
	_cleanup_free_ Elf64_Sym *symbols = calloc(count, sizeof(*symbols));
	uint32_t n_names = count * distance + 65536;
	_cleanup_free_ char *text = malloc(n_names);
	int fd;

	CHECK(symbols && text);
	target_file_make(&f);
	memset(text, 'a', n_names);
	text[n_names - 1] = 0;
	for (uint32_t i = 0; i < count; i++) {
		symbols[i] = f.elf.symbols[1];
		symbols[i].st_name = i * distance;
	}
	sections[ELF_FILE_SYMTAB].sh_offset = at;
	sections[ELF_FILE_SYMTAB].sh_size = size;
	sections[ELF_FILE_STRTAB].sh_offset = names;
	sections[ELF_FILE_STRTAB].sh_size = n_names;
	fd = make_large(names + n_names);
	write_at(fd, at, symbols, size);
	write_at(fd, names, text, n_names);
	return fd;
}

TEST(a_million_symbols_with_overlapping_names_are_bounded)
{
	long before = peak_kilobytes();

	alarm(ALARM_SECONDS);
	for (uint32_t distance = 0; distance < 8; distance += 7) {
		_cleanup_close_ int fd = make_symbols(1u << 20, distance);
		struct outcome o = examine(fd);

		CHECK_EQ(o.open, 0);
		CHECK_EQ(o.symbols, -E2BIG);
		CHECK(o.plan == 0 || o.plan == -E2BIG);
		CHECK(o.n_sites <= 256);
	}
	CHECK(peak_kilobytes() - before < KILOBYTES_MAX);
	alarm(0);
}

/* 65,535 sections of one type and name, all with the same bytes. */
static int make_sections(const Elf64_Shdr *model)
{
	const uint64_t at = (sizeof(f) + 7) & ~7ull;
	_cleanup_free_ Elf64_Shdr *many = malloc(65535 * sizeof(*many));
	int fd;

	CHECK(many);
	memcpy(many, sections, sizeof(f.sections));
	for (uint32_t i = TARGET_FILE_SECTIONS; i < 65535; i++)
		many[i] = *model;
	header->e_shoff = at;
	header->e_shnum = 65535;
	fd = make_large(at + 65535 * sizeof(*many));
	write_at(fd, at, many, 65535 * sizeof(*many));
	return fd;
}

TEST(a_file_with_65535_sections_is_bounded)
{
	long before = peak_kilobytes();

	alarm(ALARM_SECONDS);
	for (int i = ELF_FILE_SYMTAB; i < TARGET_FILE_SECTIONS; i++) {
		_cleanup_close_ int fd = -1;
		struct outcome o;

		target_file_make(&f);
		fd = make_sections(&sections[i]);
		o = examine(fd);
		CHECK_EQ(o.open, 0);
		CHECK_EQ(o.symbols, 0);
		CHECK_EQ(o.usdt, 0);
		CHECK_EQ(o.n_usdt, 2);
		CHECK_STR(o.release, TARGET_FILE_VERSION);
	}
	CHECK(peak_kilobytes() - before < KILOBYTES_MAX);
	alarm(0);
}

TEST(a_hash_chain_without_end_is_bounded)
{
	const uint64_t size = 8ull << 30;
	_cleanup_close_ int fd = -1;
	struct outcome o;

	alarm(ALARM_SECONDS);
	target_file_make(&f);
	sections[TARGET_FILE_HASH].sh_offset = sizeof(f);
	sections[TARGET_FILE_HASH].sh_size = size - sizeof(f);
	f.hash.n_bloom = 0;
	fd = make_large(size);
	write_at(fd, sizeof(f), &f.hash, 16);
	/* The rest is a hole: a bucket and chains of zeros, of symbols that do not exist. */
	write_at(fd, sizeof(f) + 16, &f.hash.bucket, sizeof(f.hash.bucket));
	o = examine(fd);
	CHECK_EQ(o.lookup, -EBADMSG);
	CHECK(!strncmp(o.release, "build-id:", 9));
	alarm(0);
}

static uint64_t random_state;

/* Steps of a multiplicative generator, of which the upper bits are used. */
static uint32_t random_below(uint32_t limit)
{
	random_state = random_state * 6364136223846793005 + 1442695040888963407;
	return (uint32_t)((random_state >> 32) * limit >> 32);
}

/* Corrupts one to eight bytes, together or apart: often where headers and tables are, often with
 * the ends of a range. */
static void mutate(uint8_t *bytes, size_t size)
{
	static const uint8_t ends[] = { 0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff };
	uint32_t n = 1 + random_below(8), region = (uint32_t)size, base = 0, at;
	bool apart = random_below(2);

	if (random_below(2)) {
		region = (uint32_t)MIN(size, 4096);
		base = random_below(2) ? 0 : (uint32_t)size - region;
	}
	at = base + random_below(region);
	for (uint32_t i = 0; i < n; i++) {
		bytes[at] = random_below(2) ? ends[random_below(ARRAY_SIZE(ends))]
					    : (uint8_t)random_below(256);
		at = apart ? base + random_below(region) : (at + 1) % (uint32_t)size;
	}
}

static void run_mutations(const uint8_t *valid, size_t size, int count)
{
	_cleanup_free_ uint8_t *bytes = malloc(size);
	long before = peak_kilobytes();
	_cleanup_close_ int fd = -1;
	int n_right = 0, n_refused = 0;

	CHECK(bytes);
	fd = elf_file_write(valid, size);
	CHECK(fd >= 0);
	if (!bytes || fd < 0)
		return;
	alarm(ALARM_SECONDS);
	random_state = 4 + check_seed();
	for (int i = 0; i < count; i++) {
		int failures = check_failures;
		struct outcome o;

		memcpy(bytes, valid, size);
		mutate(bytes, size);
		write_at(fd, 0, bytes, size);
		o = examine(fd);
		o.open || o.symbols || o.plan || o.usdt ? n_refused++ : n_right++;
		if (check_failures > failures) {
			fprintf(stderr, "  mutation %d\n", i);
			break;
		}
	}
	alarm(0);
	CHECK(n_right > count / 100 && n_refused > count / 100);
	CHECK(peak_kilobytes() - before < KILOBYTES_MAX);
}

TEST(mutations_of_a_small_file_are_read_correctly_or_refused)
{
	target_file_make(&f);
	run_mutations((const uint8_t *)&f, sizeof(f), (int)check_cases(20000, 1000));
}

/* The smallest library that this program has loaded. */
static int open_library(size_t *ret_size)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], path[256], best[256] = "";
	struct stat st;

	*ret_size = SIZE_MAX;
	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%*s %*s %*s %*s %*s %255[^\n]", path) == 1 &&
		    strstr(path, ".so") && !stat(path, &st) && (size_t)st.st_size < *ret_size) {
			*ret_size = (size_t)st.st_size;
			strcpy(best, path);
		}
	if (maps)
		fclose(maps);
	return open(best, O_RDONLY | O_CLOEXEC);
}

TEST(mutations_of_a_real_library_are_read_correctly_or_refused)
{
	size_t size;
	_cleanup_close_ int fd = open_library(&size);
	_cleanup_free_ uint8_t *bytes = NULL;
	struct outcome o;

	CHECK(fd >= 0 && size < 1 << 20);
	if (fd < 0 || size >= 1 << 20)
		return;
	bytes = malloc(size);
	CHECK(bytes && pread(fd, bytes, size, 0) == (ssize_t)size);
	o = examine(fd);
	CHECK(!o.open && !o.symbols && !o.usdt && !o.ranges && o.n_symbols > 0);
	if (bytes)
		run_mutations(bytes, size, (int)check_cases(20000, 1000));
}

CHECK_MAIN()
