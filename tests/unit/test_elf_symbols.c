/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>

#include "lib/base/macro.h"
#include "lib/elf/pattern.h"
#include "lib/elf/symbols.h"
#include "tests/unit/check.h"
#include "tests/unit/elf_file.h"

/* What a match reported, as lines "pattern name address-in-code size". */
struct report {
	char text[4096];
	size_t n;
	uint64_t offset;
	int answer;
};

static int on_match(const struct symbol_match *match, void *data)
{
	struct report *report = data;
	size_t length = strlen(report->text);

	snprintf(report->text + length, sizeof(report->text) - length, "%zu %.40s %llu %llu\n",
		 match->pattern, match->name,
		 (unsigned long long)(match->address - ELF_FILE_ADDRESS),
		 (unsigned long long)match->size);
	report->offset = match->offset;
	report->n++;
	return report->answer;
}

static int match_descriptor(int fd, const struct symbol_pattern *patterns, size_t n,
			    struct report *report, const char **ret_reason)
{
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	int r = elf_image_open(fd, &image, ret_reason);

	return r < 0 ? r : elf_symbols_match(image, patterns, n, on_match, report, ret_reason);
}

static int match_bytes(const void *data, size_t size, const char *pattern, struct report *report,
		       const char **ret_reason)
{
	_cleanup_close_ int fd = elf_file_write(data, size);

	return match_descriptor(fd, &(struct symbol_pattern){ pattern }, 1, report, ret_reason);
}

TEST(exact_names_prefixes_and_globs_match_whole_names)
{
	static const struct symbol_pattern patterns[] = {
		{ "_ZN3run3RunEv" }, { "_ZN3run3*" },
		{ "_ZN3run1KD?Ev" }, { "*Ev" },
		{ "*3run*Ev" },      { "_ZN3run3RunE" },
		{ "?ZN3run*" },      { "run" },
		{ "_ZN*3*u*E?" },    { "*" },
	};
	_cleanup_close_ int fd = -1;
	struct report report = { 0 };
	struct elf_file file;

	elf_file_make(&file);
	ELF_FILE_ADD(&file, "_ZN3run3RunEv", 0x10, STB_GLOBAL);
	ELF_FILE_ADD(&file, "_ZN3run3RunEi", 0x20, STB_LOCAL);
	ELF_FILE_ADD(&file, "_ZN3run1KD2Ev", 0x30, STB_WEAK);
	ELF_FILE_ADD(&file, "_ZN3run1KD2Ei", 0x40, STB_WEAK);
	ELF_FILE_ADD(&file, "main", 0x50, STB_GLOBAL);
	fd = elf_file_write(&file, sizeof(file));
	CHECK_EQ(match_descriptor(fd, patterns, ARRAY_SIZE(patterns), &report, NULL), 0);
	CHECK_STR(report.text,
		  "0 _ZN3run3RunEv 16 16\n"
		  "1 _ZN3run3RunEv 16 16\n1 _ZN3run3RunEi 32 16\n"
		  "2 _ZN3run1KD2Ev 48 16\n"
		  "3 _ZN3run3RunEv 16 16\n3 _ZN3run1KD2Ev 48 16\n"
		  "4 _ZN3run3RunEv 16 16\n4 _ZN3run1KD2Ev 48 16\n"
		  "6 _ZN3run3RunEv 16 16\n6 _ZN3run3RunEi 32 16\n6 _ZN3run1KD2Ev 48 16\n"
		  "6 _ZN3run1KD2Ei 64 16\n"
		  "8 _ZN3run3RunEv 16 16\n8 _ZN3run3RunEi 32 16\n8 _ZN3run1KD2Ev 48 16\n"
		  "8 _ZN3run1KD2Ei 64 16\n"
		  "9 _ZN3run3RunEv 16 16\n9 _ZN3run3RunEi 32 16\n9 _ZN3run1KD2Ev 48 16\n"
		  "9 _ZN3run1KD2Ei 64 16\n9 main 80 16\n");
}

TEST(a_function_in_both_tables_or_with_two_names_is_reported_once)
{
	struct report report = { 0 };
	struct elf_file file;

	elf_file_make(&file);
	ELF_FILE_ADD(&file, "_ZN1KC1Ev", 0x10, STB_GLOBAL);
	ELF_FILE_ADD(&file, "_ZN1KC2Ev", 0x10, STB_GLOBAL);
	ELF_FILE_ADD_DYNAMIC(&file, "_ZN1KC1Ev", 0x10);
	CHECK_EQ(match_bytes(&file, sizeof(file), "_ZN1KC?Ev", &report, NULL), 0);
	CHECK_STR(report.text, "0 _ZN1KC1Ev 16 16\n");
	CHECK_EQ(report.offset, offsetof(struct elf_file, code) + 0x10);
}

TEST(functions_of_the_dynamic_table_alone_are_found)
{
	struct report edited = { 0 }, stripped = { 0 };
	struct elf_file file;

	elf_file_make(&file);
	ELF_FILE_ADD(&file, "other", 0x10, STB_GLOBAL);
	ELF_FILE_ADD_DYNAMIC(&file, "dynamic", 0x20);
	CHECK_EQ(match_bytes(&file, sizeof(file), "dynamic", &edited, NULL), 0);
	CHECK_EQ(edited.n, 1);
	file.sections[ELF_FILE_SYMTAB].sh_type = SHT_NULL;
	CHECK_EQ(match_bytes(&file, sizeof(file), "dyn*", &stripped, NULL), 0);
	CHECK_EQ(stripped.n, 1);
}

TEST(symbols_without_code_are_not_reported)
{
	struct report report = { 0 };
	struct elf_file file;

	elf_file_make(&file);
	ELF_FILE_ADD(&file, "f_undefined", 0x10, STB_GLOBAL);
	ELF_FILE_ADD(&file, "f_object", 0x20, STB_GLOBAL);
	ELF_FILE_ADD(&file, "f_label", 0x30, STB_GLOBAL);
	ELF_FILE_ADD(&file, "f_outside", 0x100, STB_GLOBAL);
	ELF_FILE_ADD(&file, "f_far", UINT64_MAX / 2, STB_GLOBAL);
	file.symbols[1].st_shndx = SHN_UNDEF;
	file.symbols[2].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
	file.symbols[3].st_size = 0;
	CHECK_EQ(match_bytes(&file, sizeof(file), "f_*", &report, NULL), 0);
	CHECK_EQ(report.n, 0);
}

TEST(the_callback_can_end_the_match)
{
	struct report report = { .answer = 7 };
	struct elf_file file;

	elf_file_make(&file);
	ELF_FILE_ADD(&file, "f", 0x10, STB_GLOBAL);
	ELF_FILE_ADD(&file, "g", 0x20, STB_GLOBAL);
	CHECK_EQ(match_bytes(&file, sizeof(file), "?", &report, NULL), 7);
	CHECK_EQ(report.n, 1);
}

TEST(malformed_symbol_tables_are_refused_with_an_error_and_a_reason)
{
	static const struct {
		const char *what;
		int error;
	} cases[] = {
		{ "entry size 0", -EBADMSG },
		{ "entry size 23", -EBADMSG },
		{ "size that is no multiple of entries", -EBADMSG },
		{ "offset of 16 EiB", -EBADMSG },
		{ "size of 16 EiB", -EBADMSG },
		{ "offset and size that wrap to a small number", -EBADMSG },
		{ "one symbol past the end of the file", -EBADMSG },
		{ "strings linked outside the sections", -EBADMSG },
		{ "strings linked to the symbol table itself", -EBADMSG },
		{ "strings without bytes in the file", -EBADMSG },
		{ "strings of no size", -EBADMSG },
		{ "strings at 16 EiB", -EBADMSG },
		{ "strings of 16 EiB", -EBADMSG },
		{ "strings past the end of the file", -EBADMSG },
		{ "strings that do not end with NUL", -EBADMSG },
		{ "name just past the strings", -EBADMSG },
		{ "name at 4 GiB", -EBADMSG },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct report report = { 0 };
		const char *reason = NULL;
		struct elf_file file;
		Elf64_Shdr *symbols = &file.sections[ELF_FILE_SYMTAB],
			   *strings = &file.sections[ELF_FILE_STRTAB];
		int r;

		elf_file_make(&file);
		ELF_FILE_ADD(&file, "f", 0x10, STB_GLOBAL);
		switch (i) {
		case 0:
			symbols->sh_entsize = 0;
			break;
		case 1:
			symbols->sh_entsize = 23;
			break;
		case 2:
			symbols->sh_size -= 1;
			break;
		case 3:
			symbols->sh_offset = UINT64_MAX - 23;
			break;
		case 4:
			symbols->sh_size = UINT64_MAX / 24 * 24;
			break;
		case 5:
			symbols->sh_offset = UINT64_MAX - 23, symbols->sh_size = 48;
			break;
		case 6:
			symbols->sh_size = (sizeof(file) - symbols->sh_offset) / 24 * 24 + 24;
			break;
		case 7:
			symbols->sh_link = ELF_FILE_SECTIONS;
			break;
		case 8:
			symbols->sh_link = ELF_FILE_SYMTAB;
			break;
		case 9:
			strings->sh_type = SHT_NOBITS;
			break;
		case 10:
			strings->sh_size = 0;
			break;
		case 11:
			strings->sh_offset = UINT64_MAX;
			break;
		case 12:
			strings->sh_size = UINT64_MAX;
			break;
		case 13:
			strings->sh_size = sizeof(file);
			break;
		case 14:
			file.strings[sizeof(file.strings) - 1] = 'x';
			break;
		case 15:
			file.symbols[1].st_name = sizeof(file.strings);
			break;
		case 16:
			file.symbols[1].st_name = UINT32_MAX;
			break;
		}
		r = match_bytes(&file, sizeof(file), "*", &report, &reason);
		if (r != cases[i].error || !reason)
			fprintf(stderr, "  %s:\n", cases[i].what);
		CHECK_EQ(r, cases[i].error);
		CHECK(reason && *reason);
		CHECK_EQ(report.n, 0);
	}
}

TEST(tables_that_overlap_each_other_are_read_without_harm)
{
	struct report report = { 0 };
	struct elf_file file;

	elf_file_make(&file);
	for (size_t i = 1; i < 8; i++)
		ELF_FILE_ADD(&file, "f", 0x10 * i, STB_GLOBAL);
	file.sections[ELF_FILE_STRTAB].sh_offset = offsetof(struct elf_file, symbols);
	file.sections[ELF_FILE_STRTAB].sh_size = sizeof(file.symbols);
	CHECK_EQ(match_bytes(&file, sizeof(file), "*", &report, NULL), 0);
	CHECK_EQ(report.n, 7);
}

TEST(patterns_that_are_empty_too_long_or_too_many_are_refused)
{
	char text[PATTERN_LENGTH_MAX + 2];
	struct symbol_pattern *many = calloc(SYMBOLS_PATTERNS_MAX + 1, sizeof(*many));
	_cleanup_close_ int fd = -1;
	struct report report = { 0 };
	struct elf_file file;

	elf_file_make(&file);
	fd = elf_file_write(&file, sizeof(file));
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = 0;
	CHECK_EQ(match_bytes(&file, sizeof(file), text, &report, NULL), -EINVAL);
	text[sizeof(text) - 2] = 0;
	CHECK_EQ(match_bytes(&file, sizeof(file), text, &report, NULL), 0);
	CHECK_EQ(match_bytes(&file, sizeof(file), "", &report, NULL), -EINVAL);
	CHECK_EQ(match_bytes(&file, sizeof(file), NULL, &report, NULL), -EINVAL);
	for (size_t i = 0; i <= SYMBOLS_PATTERNS_MAX; i++)
		many[i].text = "*";
	CHECK_EQ(match_descriptor(fd, many, SYMBOLS_PATTERNS_MAX + 1, &report, NULL), -EINVAL);
	CHECK_EQ(match_descriptor(fd, many, SYMBOLS_PATTERNS_MAX, &report, NULL), 0);
	CHECK_EQ(match_descriptor(fd, many, 0, &report, NULL), 0);
	free(many);
}

/* A file whose symbols and strings are large and follow the small ones. */
struct large {
	struct elf_file file;
	uint8_t *bytes;
	size_t size;
	Elf64_Sym *symbols;
	char *strings;
};

static void large_make(struct large *large, size_t n_symbols, size_t strings_size)
{
	size_t symbols_size = n_symbols * sizeof(Elf64_Sym);

	elf_file_make(&large->file);
	large->file.sections[ELF_FILE_SYMTAB].sh_offset = sizeof(large->file);
	large->file.sections[ELF_FILE_SYMTAB].sh_size = symbols_size;
	large->file.sections[ELF_FILE_STRTAB].sh_offset = sizeof(large->file) + symbols_size;
	large->file.sections[ELF_FILE_STRTAB].sh_size = strings_size;
	large->size = sizeof(large->file) + symbols_size + strings_size;
	large->bytes = calloc(1, large->size);
	large->symbols = (Elf64_Sym *)(large->bytes + sizeof(large->file));
	large->strings = (char *)(large->bytes + sizeof(large->file) + symbols_size);
	for (size_t i = 0; i < n_symbols; i++)
		large->symbols[i] = (Elf64_Sym){
			.st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
			.st_shndx = 1,
			.st_value = ELF_FILE_ADDRESS + i % 256,
			.st_size = 1 + i,
		};
}

static int large_match(struct large *large, const char *pattern, struct report *report,
		       const char **ret_reason)
{
	memcpy(large->bytes, &large->file, sizeof(large->file));
	return match_bytes(large->bytes, large->size, pattern, report, ret_reason);
}

TEST(a_million_symbols_in_any_order_are_matched)
{
	enum { N = 1000000, NAME = 8 };
	struct report exact = { 0 }, suffix = { 0 }, all = { 0 };
	const char *reason = NULL;
	struct large large;

	large_make(&large, N, N * NAME);
	for (size_t i = 0; i < N; i++) {
		/* A permutation: 7919 has no factor in common with N. */
		size_t place = i * 7919 % N;
		char name[16];

		snprintf(name, sizeof(name), "f%06zu", i);
		memcpy(large.strings + place * NAME, name, NAME);
		large.symbols[i].st_name = (uint32_t)(place * NAME);
	}
	CHECK_EQ(large_match(&large, "f123456", &exact, NULL), 0);
	CHECK_STR(exact.text, "0 f123456 64 123457\n");
	/* Ten functions; those at one address come once: 100,000 steps of one byte are 160 bytes of
	 * the 256. */
	CHECK_EQ(large_match(&large, "*?12345", &suffix, NULL), 0);
	CHECK_EQ(suffix.n, 8);
	CHECK_EQ(large_match(&large, "*", &all, &reason), -E2BIG);
	CHECK(reason);
	CHECK_EQ(all.n, 0);
	free(large.bytes);
}

TEST(names_are_matched_up_to_the_maximal_length_and_skipped_beyond)
{
	enum {
		LONGEST = 0,
		TOO_LONG = SYMBOLS_NAME_MAX + 1,
		SHORT = TOO_LONG + SYMBOLS_NAME_MAX + 2
	};
	struct report report = { 0 };
	struct large large;

	large_make(&large, 3, SHORT + 4);
	memset(large.strings + LONGEST, 'a', SYMBOLS_NAME_MAX);
	memset(large.strings + TOO_LONG, 'a', SYMBOLS_NAME_MAX + 1);
	memset(large.strings + SHORT, 'a', 3);
	large.symbols[0].st_name = LONGEST;
	large.symbols[1].st_name = TOO_LONG;
	large.symbols[2].st_name = SHORT;
	CHECK_EQ(large_match(&large, "a*a", &report, NULL), 0);
	CHECK_STR(report.text, "0 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 0 1\n0 aaa 2 3\n");
	free(large.bytes);
}

TEST(symbols_that_share_one_long_name_take_bounded_time)
{
	enum { N = 400000 };
	struct report report = { 0 };
	const char *reason = NULL;
	struct large large;

	large_make(&large, N, SYMBOLS_NAME_MAX + 1);
	memset(large.strings, 'a', SYMBOLS_NAME_MAX);
	for (size_t i = 0; i < N; i++)
		large.symbols[i].st_name = (uint32_t)(i % 100);
	CHECK_EQ(large_match(&large, "*aaab", &report, &reason), -E2BIG);
	CHECK(reason);
	reason = NULL;
	CHECK_EQ(large_match(&large, "a*aaab", &report, &reason), -E2BIG);
	CHECK(reason);
	free(large.bytes);
}

TEST(more_symbols_than_the_limit_are_refused_before_they_are_read)
{
	_cleanup_close_ int fd = -1;
	struct report report = { 0 };
	struct elf_file file;

	elf_file_make(&file);
	file.sections[ELF_FILE_SYMTAB].sh_size = (SYMBOLS_MAX + 1ull) * sizeof(Elf64_Sym);
	fd = elf_file_write(&file, sizeof(file));
	CHECK_EQ(ftruncate(fd, 1ll << 30), 0);
	CHECK_EQ(match_descriptor(fd, &(struct symbol_pattern){ "f" }, 1, &report, NULL), -E2BIG);
}

TEST(a_file_that_shrinks_before_its_symbols_are_read_is_an_error)
{
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	_cleanup_close_ int fd = -1;
	struct report report = { 0 };
	const char *reason = NULL;
	struct elf_file file;

	elf_file_make(&file);
	fd = elf_file_write(&file, sizeof(file));
	CHECK_EQ(elf_image_open(fd, &image, NULL), 0);
	CHECK_EQ(ftruncate(fd, offsetof(struct elf_file, symbols) + 10), 0);
	CHECK_EQ(elf_symbols_match(image, &(struct symbol_pattern){ "f" }, 1, on_match, &report,
				   &reason),
		 -EBADMSG);
	CHECK(reason);
}

struct own_function {
	const struct elf_image *image;
	size_t n;
};

static int compare_own_code(const struct symbol_match *match, void *data)
{
	struct own_function *own = data;
	uint8_t bytes[16];
	size_t size;

	own->n++;
	CHECK_EQ(elf_image_read_code(own->image, match->offset, bytes, sizeof(bytes), &size), 0);
	CHECK(!memcmp(bytes, (const void *)(uintptr_t)elf_symbols_match, MIN(size, match->size)));
	return 0;
}

TEST(the_offset_of_a_function_of_this_program_is_that_of_its_code)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	struct symbol_pattern pattern = { "elf_symbols_match" };
	struct own_function own = { 0 };

	CHECK_EQ(elf_image_open(fd, &image, NULL), 0);
	own.image = image;
	CHECK_EQ(elf_symbols_match(image, &pattern, 1, compare_own_code, &own, NULL), 0);
	CHECK_EQ(own.n, 1);
}

CHECK_MAIN()
