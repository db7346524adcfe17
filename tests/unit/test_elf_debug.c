/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <lzma.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "lib/base/macro.h"
#include "lib/elf/debug.h"
#include "lib/elf/symbols.h"
#include "tests/unit/check.h"
#include "tests/unit/elf_file.h"

enum { SECTION_NAMES = ELF_FILE_SECTIONS, SECTION_DEBUGDATA, SECTIONS };

/* A stripped file with .gnu_debugdata; its dynamic symbols stay. */
struct stripped_file {
	struct elf_file file;
	Elf64_Shdr sections[SECTIONS];
	char names[32];
	uint8_t data[256 << 10];
};

struct report {
	char text[1024];
	uint64_t offset;
};

static int on_match(const struct symbol_match *match, void *data)
{
	struct report *report = data;
	size_t length = strlen(report->text);

	snprintf(report->text + length, sizeof(report->text) - length, "%s %#llx %s\n", match->name,
		 (unsigned long long)(match->address - ELF_FILE_ADDRESS),
		 symbol_source_name(match->source));
	report->offset = match->offset;
	return 0;
}

static void stripped_file_make(struct stripped_file *file, size_t data_size)
{
	elf_file_make(&file->file);
	memcpy(file->sections, file->file.sections, sizeof(file->file.sections));
	memcpy(file->names, "\0.names\0.gnu_debugdata", 23);
	file->sections[ELF_FILE_SYMTAB].sh_type = SHT_NULL;
	file->sections[SECTION_NAMES] = elf_file_section(
		SHT_STRTAB, offsetof(struct stripped_file, names), sizeof(file->names), 0, 0);
	file->sections[SECTION_NAMES].sh_name = 1;
	file->sections[SECTION_DEBUGDATA] = elf_file_section(
		SHT_PROGBITS, offsetof(struct stripped_file, data), data_size, 0, 0);
	file->sections[SECTION_DEBUGDATA].sh_name = 8;
	file->file.header.e_shoff = offsetof(struct stripped_file, sections);
	file->file.header.e_shnum = SECTIONS;
	file->file.header.e_shstrndx = SECTION_NAMES;
}

/* A stripped file whose .gnu_debugdata is this, compressed. */
static struct stripped_file *stripped_file_new(const void *data, size_t size, uint32_t dictionary)
{
	struct stripped_file *file = calloc(1, sizeof(*file));
	lzma_options_lzma options;
	lzma_filter filters[] = { { LZMA_FILTER_LZMA2, &options }, { LZMA_VLI_UNKNOWN, NULL } };
	size_t written = 0;

	lzma_lzma_preset(&options, 0);
	if (dictionary)
		options.dict_size = dictionary;
	CHECK_EQ(lzma_stream_buffer_encode(filters, LZMA_CHECK_CRC32, NULL, data, size, file->data,
					   &written, sizeof(file->data)),
		 LZMA_OK);
	stripped_file_make(file, written);
	return file;
}

static int match(const void *data, size_t size, struct report *report, const char **ret_reason)
{
	_cleanup_close_ int fd = elf_file_write(data, size);
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;

	CHECK_EQ(elf_image_open(fd, &image, NULL), 0);
	return elf_symbols_match(image, &(struct symbol_pattern){ "_Z*" }, 1, on_match, report,
				 ret_reason);
}

/* The error of a stripped file, which must include a reason. */
static int refusal(const struct stripped_file *file)
{
	struct report report = { 0 };
	const char *reason = NULL;
	int r = match(file, sizeof(*file), &report, &reason);

	CHECK(reason);
	CHECK_STR(report.text, "");
	return r;
}

TEST(functions_of_gnu_debugdata_are_found_and_their_code_is_that_of_the_file)
{
	_cleanup_free_ struct stripped_file *file = NULL;
	struct report report = { 0 };
	struct elf_file inner;

	elf_file_make(&inner);
	ELF_FILE_ADD(&inner, "_ZN3run5innerEv", 0x20, STB_LOCAL);
	ELF_FILE_ADD(&inner, "_ZN3run3farEv", 0x200, STB_LOCAL);
	/* Its own code is elsewhere, as in the files that debuggers get. */
	inner.segments[ELF_FILE_SEGMENT_CODE].p_offset = 0;
	file = stripped_file_new(&inner, sizeof(inner), 0);
	ELF_FILE_ADD_DYNAMIC(&file->file, "_ZN3run5outerEv", 0x10);
	CHECK_EQ(match(file, sizeof(*file), &report, NULL), 0);
	CHECK_STR(report.text,
		  "_ZN3run5outerEv 0x10 .dynsym\n_ZN3run5innerEv 0x20 .gnu_debugdata\n");
	CHECK_EQ(report.offset, offsetof(struct elf_file, code) + 0x20);
}

TEST(gnu_debugdata_is_not_read_when_the_file_has_its_symbols)
{
	_cleanup_free_ struct stripped_file *file = calloc(1, sizeof(*file));
	struct report report = { 0 };

	stripped_file_make(file, 100);
	file->sections[ELF_FILE_SYMTAB].sh_type = SHT_SYMTAB;
	ELF_FILE_ADD(&file->file, "_ZN3run3RunEv", 0x10, STB_GLOBAL);
	CHECK_EQ(match(file, sizeof(*file), &report, NULL), 0);
	CHECK_STR(report.text, "_ZN3run3RunEv 0x10 .symtab\n");
}

TEST(a_malformed_gnu_debugdata_is_refused_with_a_reason)
{
	_cleanup_free_ struct stripped_file *file = NULL;
	struct elf_file inner;
	uint64_t size;

	elf_file_make(&inner);
	file = stripped_file_new(&inner, sizeof(inner), 0);
	size = file->sections[SECTION_DEBUGDATA].sh_size;
	file->sections[SECTION_DEBUGDATA].sh_size = size / 2;
	CHECK_EQ(refusal(file), -EBADMSG);
	file->sections[SECTION_DEBUGDATA].sh_size = 0;
	CHECK_EQ(refusal(file), -EBADMSG);
	file->sections[SECTION_DEBUGDATA].sh_size = UINT64_MAX;
	CHECK_EQ(refusal(file), -EBADMSG);
	file->sections[SECTION_DEBUGDATA].sh_size = size;
	file->sections[SECTION_DEBUGDATA].sh_offset = UINT64_MAX - 8;
	CHECK_EQ(refusal(file), -EBADMSG);
	file->sections[SECTION_DEBUGDATA].sh_offset = offsetof(struct stripped_file, data);
	file->data[size / 2] ^= 1;
	CHECK_EQ(refusal(file), -EBADMSG);
	free(file);
	file = stripped_file_new("no ELF file, and long enough to be one: ------------------------",
				 64, 0);
	CHECK_EQ(refusal(file), -ENOEXEC);
}

TEST(gnu_debugdata_that_becomes_too_large_or_needs_too_much_memory_is_refused)
{
	_cleanup_free_ struct stripped_file *file = NULL;
	_cleanup_free_ uint8_t *zeros = calloc(1, DEBUG_DATA_MAX + 1u);

	file = stripped_file_new(zeros, DEBUG_DATA_MAX + 1u, 0);
	CHECK_EQ(refusal(file), -E2BIG);
	free(file);
	file = stripped_file_new(zeros, 4096, 128u << 20);
	CHECK_EQ(refusal(file), -E2BIG);
}

/* A directory of debug files with one for the build-id of elf_file_make. */
struct directory {
	char path[32], subdirectory[64], folder[80], file[128];
};

static void directory_make(struct directory *directory, const struct elf_file *debug, mode_t mode)
{
	_cleanup_close_ int fd = -1;

	strcpy(directory->path, "/tmp/elf-debug-XXXXXX");
	CHECK(mkdtemp(directory->path));
	snprintf(directory->subdirectory, sizeof(directory->subdirectory), "%s/.build-id",
		 directory->path);
	snprintf(directory->folder, sizeof(directory->folder), "%s/00", directory->subdirectory);
	snprintf(directory->file, sizeof(directory->file),
		 "%s/0102030405060708090a0b0c0d0e0f10111213.debug", directory->folder);
	CHECK_EQ(mkdir(directory->subdirectory, 0755), 0);
	CHECK_EQ(mkdir(directory->folder, 0755), 0);
	fd = open(directory->file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK_EQ(write(fd, debug, sizeof(*debug)), (ssize_t)sizeof(*debug));
	CHECK_EQ(fchmod(fd, mode), 0);
}

static void directory_remove(struct directory *directory)
{
	unlink(directory->file);
	rmdir(directory->folder);
	rmdir(directory->subdirectory);
	rmdir(directory->path);
}

/* The result for a file and a debug file with these modes and owners. */
static int open_pair(const struct elf_file *file, mode_t file_mode, const struct elf_file *debug,
		     mode_t debug_mode, uid_t owner, struct report *report)
{
	_cleanup_close_ int fd = elf_file_write(file, sizeof(*file)), debug_fd = -1;
	_cleanup_(elf_image_freep) struct elf_image *image = NULL, *debug_image = NULL;
	_cleanup_(directory_remove) struct directory directory;
	const char *reason = NULL;
	int r;

	directory_make(&directory, debug, debug_mode);
	if (owner)
		CHECK_EQ(chown(directory.file, owner, 0), 0);
	CHECK_EQ(fchmod(fd, file_mode), 0);
	CHECK_EQ(elf_image_open(fd, &image, NULL), 0);
	CHECK_EQ(elf_debug_find(elf_image_build_id(image), directory.path, &debug_fd), 0);
	r = elf_debug_open(image, debug_fd, &debug_image, &reason);
	CHECK_EQ(!reason, r == 0);
	if (r == 0)
		r = elf_symbols_match_debug(image, debug_image, &(struct symbol_pattern){ "_Z*" },
					    1, on_match, report, NULL);
	return r;
}

/* A stripped file and the debug file that was made of it. */
static void pair_make(struct elf_file *file, struct elf_file *debug)
{
	elf_file_make(file);
	*debug = *file;
	file->sections[ELF_FILE_SYMTAB].sh_type = SHT_NULL;
	debug->segments[ELF_FILE_SEGMENT_CODE].p_offset = 0;
	debug->segments[ELF_FILE_SEGMENT_CODE].p_filesz = 0;
	ELF_FILE_ADD(debug, "_ZN3run3RunEv", 0x20, STB_LOCAL);
}

TEST(functions_of_the_debug_file_are_found_when_root_owns_both_files)
{
	struct report report = { 0 }, unstripped = { 0 };
	struct elf_file file, debug;

	CHECK(geteuid() == 0 && "this test makes files of root's: run it as root");
	pair_make(&file, &debug);
	CHECK_EQ(open_pair(&file, 0755, &debug, 0644, 0, &report), 0);
	CHECK_STR(report.text, "_ZN3run3RunEv 0x20 debug file\n");
	CHECK_EQ(report.offset, offsetof(struct elf_file, code) + 0x20);
	file.sections[ELF_FILE_SYMTAB].sh_type = SHT_SYMTAB;
	CHECK_EQ(open_pair(&file, 0755, &debug, 0644, 0, &unstripped), 0);
	CHECK_STR(unstripped.text, "");
}

TEST(a_debug_file_writable_by_other_users_is_refused)
{
	struct report report = { 0 };
	struct elf_file file, debug;

	CHECK(geteuid() == 0 && "this test makes files of root's: run it as root");
	pair_make(&file, &debug);
	CHECK_EQ(open_pair(&file, 0755, &debug, 0664, 0, &report), -EPERM);
	CHECK_EQ(open_pair(&file, 0755, &debug, 0646, 0, &report), -EPERM);
	CHECK_EQ(open_pair(&file, 0775, &debug, 0644, 0, &report), -EPERM);
	CHECK_EQ(open_pair(&file, 0757, &debug, 0644, 0, &report), -EPERM);
	CHECK_EQ(open_pair(&file, 0755, &debug, 0644, 65534, &report), -EPERM);
	CHECK_STR(report.text, "");
}

TEST(a_debug_file_of_another_file_is_refused)
{
	struct report report = { 0 };
	struct elf_file file, debug;

	CHECK(geteuid() == 0 && "this test makes files of root's: run it as root");
	pair_make(&file, &debug);
	debug.note_id[19]++;
	CHECK_EQ(open_pair(&file, 0755, &debug, 0644, 0, &report), -ESTALE);
	pair_make(&file, &debug);
	debug.segments[ELF_FILE_SEGMENT_CODE].p_memsz++;
	CHECK_EQ(open_pair(&file, 0755, &debug, 0644, 0, &report), -ESTALE);
	pair_make(&file, &debug);
	debug.segments[ELF_FILE_SEGMENT_CODE].p_vaddr += 4096;
	CHECK_EQ(open_pair(&file, 0755, &debug, 0644, 0, &report), -ESTALE);
	pair_make(&file, &debug);
	debug.segments[ELF_FILE_SEGMENT_CODE].p_flags |= PF_W;
	CHECK_EQ(open_pair(&file, 0755, &debug, 0644, 0, &report), -ESTALE);
	pair_make(&file, &debug);
	debug.segments[ELF_FILE_SEGMENT_CODE].p_type = PT_NULL;
	CHECK_EQ(open_pair(&file, 0755, &debug, 0644, 0, &report), -ESTALE);
	pair_make(&file, &debug);
	debug.header.e_ident[0] = 0;
	CHECK_EQ(open_pair(&file, 0755, &debug, 0644, 0, &report), -ENOEXEC);
	CHECK_STR(report.text, "");
}

TEST(a_build_id_that_is_not_hexadecimal_gives_no_path)
{
	int fd = -1;

	CHECK_EQ(elf_debug_find("", "/tmp", &fd), -ENOENT);
	CHECK_EQ(elf_debug_find("ab", "/tmp", &fd), -ENOENT);
	CHECK_EQ(elf_debug_find("../../etc/passwd", "/tmp", &fd), -ENOENT);
	CHECK_EQ(elf_debug_find("0123456789abcdef", "/nonexistent", &fd), -ENOENT);
	CHECK_EQ(fd, -1);
}

CHECK_MAIN()
