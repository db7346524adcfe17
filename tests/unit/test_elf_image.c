/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>

#include "lib/base/macro.h"
#include "lib/elf/image.h"
#include "tests/unit/check.h"
#include "tests/unit/elf_file.h"

static int open_bytes(const void *data, size_t size, struct elf_image **ret,
		      const char **ret_reason)
{
	_cleanup_close_ int fd = elf_file_write(data, size);

	CHECK(fd >= 0);
	return elf_image_open(fd, ret, ret_reason);
}

static struct elf_image *open_file(const struct elf_file *file)
{
	struct elf_image *image = NULL;

	CHECK_EQ(open_bytes(file, sizeof(*file), &image, NULL), 0);
	return image;
}

TEST(a_valid_file_is_opened_and_outlives_the_descriptor_of_the_caller)
{
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	struct elf_file file;
	uint8_t byte = 0;

	elf_file_make(&file);
	image = open_file(&file);
	CHECK(image);
	if (!image)
		return;
	CHECK_EQ(elf_image_size(image), sizeof(file));
	CHECK_EQ(elf_image_read(image, offsetof(struct elf_file, code) + 7, &byte, 1), 0);
	CHECK_EQ(byte, 7);
	CHECK_EQ(elf_image_read(image, sizeof(file) - 1, &byte, 1), 0);
	CHECK_EQ(elf_image_read(image, sizeof(file), &byte, 1), -EBADMSG);
	CHECK_EQ(elf_image_read(image, UINT64_MAX, &byte, 1), -EBADMSG);
	CHECK_EQ(elf_image_read(image, 1, &byte, SIZE_MAX), -EBADMSG);
	CHECK(elf_image_find_section(image, SHT_DYNSYM));
	CHECK(!elf_image_find_section(image, SHT_NOTE));
	CHECK(elf_image_section(image, ELF_FILE_SECTIONS - 1));
	CHECK(!elf_image_section(image, ELF_FILE_SECTIONS));
}

TEST(the_build_id_is_read_from_a_segment_or_a_section)
{
	_cleanup_(elf_image_freep) struct elf_image *by_segment = NULL, *by_section = NULL,
						    *none = NULL;
	struct elf_file file;

	elf_file_make(&file);
	by_segment = open_file(&file);
	CHECK_STR(elf_image_build_id(by_segment), "000102030405060708090a0b0c0d0e0f10111213");
	file.segments[ELF_FILE_SEGMENT_NOTE].p_type = PT_NULL;
	none = open_file(&file);
	CHECK_STR(elf_image_build_id(none), "");
	file.sections[0] = elf_file_section(SHT_NOTE, offsetof(struct elf_file, note), 36, 0, 0);
	by_section = open_file(&file);
	CHECK_STR(elf_image_build_id(by_section), "000102030405060708090a0b0c0d0e0f10111213");
}

TEST(malformed_notes_give_no_build_id)
{
	for (int i = 0; i < 7; i++) {
		_cleanup_(elf_image_freep) struct elf_image *image = NULL;
		struct elf_file file;

		elf_file_make(&file);
		switch (i) {
		case 0:
			file.note.n_namesz = UINT32_MAX;
			break;
		case 1:
			file.note.n_descsz = UINT32_MAX;
			break;
		case 2:
			file.note.n_descsz = 65;
			break;
		case 3:
			file.note.n_descsz = 0;
			break;
		case 4:
			file.segments[ELF_FILE_SEGMENT_NOTE].p_offset = UINT64_MAX - 3;
			break;
		case 5:
			file.segments[ELF_FILE_SEGMENT_NOTE].p_filesz = UINT64_MAX;
			break;
		case 6:
			file.segments[ELF_FILE_SEGMENT_NOTE].p_filesz = 35;
			break;
		}
		image = open_file(&file);
		CHECK(image);
		CHECK_STR(image ? elf_image_build_id(image) : NULL, "");
	}
}

TEST(addresses_become_file_offsets_through_executable_segments_only)
{
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	const uint64_t code = offsetof(struct elf_file, code);
	struct elf_file file;
	uint64_t offset = 1;

	elf_file_make(&file);
	image = open_file(&file);
	CHECK_EQ(elf_image_code_offset(image, ELF_FILE_ADDRESS, &offset), 0);
	CHECK_EQ(offset, code);
	CHECK_EQ(elf_image_code_offset(image, ELF_FILE_ADDRESS + 255, &offset), 0);
	CHECK_EQ(offset, code + 255);
	CHECK_EQ(elf_image_code_offset(image, ELF_FILE_ADDRESS + 256, &offset), -ENOENT);
	CHECK_EQ(elf_image_code_offset(image, ELF_FILE_ADDRESS - 1, &offset), -ENOENT);
	CHECK_EQ(elf_image_code_offset(image, 0, &offset), -ENOENT);
	CHECK_EQ(elf_image_code_offset(image, UINT64_MAX, &offset), -ENOENT);
	CHECK(elf_image_is_code(image, code, 256));
	CHECK(!elf_image_is_code(image, code, 257));
	CHECK(!elf_image_is_code(image, code, UINT64_MAX));
	CHECK(!elf_image_is_code(image, code - 1, 1));
	CHECK(!elf_image_is_code(image, code + 256, 0));
	CHECK(!elf_image_is_code(image, UINT64_MAX, 1));
}

TEST(code_is_read_up_to_the_end_of_its_segment)
{
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	struct elf_file file;
	uint8_t bytes[64];
	size_t size = 0;

	elf_file_make(&file);
	image = open_file(&file);
	CHECK_EQ(elf_image_read_code(image, offsetof(struct elf_file, code) + 250, bytes,
				     sizeof(bytes), &size),
		 0);
	CHECK_EQ(size, 6);
	CHECK_EQ(bytes[5], 255);
	CHECK_EQ(elf_image_read_code(image, 0, bytes, sizeof(bytes), &size), -ENOENT);
}

TEST(a_code_segment_outside_the_file_holds_no_code)
{
	for (int i = 0; i < 4; i++) {
		_cleanup_(elf_image_freep) struct elf_image *image = NULL;
		struct elf_file file;
		Elf64_Phdr *segment = &file.segments[ELF_FILE_SEGMENT_CODE];
		uint64_t offset;

		elf_file_make(&file);
		switch (i) {
		case 0:
			segment->p_offset = UINT64_MAX - 15;
			break;
		case 1:
			segment->p_filesz = UINT64_MAX;
			break;
		case 2:
			segment->p_offset = sizeof(file) - 255;
			break;
		case 3:
			segment->p_vaddr = UINT64_MAX - 100;
			break;
		}
		image = open_file(&file);
		CHECK(image);
		CHECK_EQ(elf_image_code_offset(image, ELF_FILE_ADDRESS, &offset), -ENOENT);
		CHECK_EQ(elf_image_code_offset(image, UINT64_MAX - 50, &offset), -ENOENT);
		CHECK(!elf_image_is_code(image, offsetof(struct elf_file, code), 1));
	}
}

TEST(a_malformed_file_is_refused_with_an_error_and_a_reason)
{
	static const struct {
		const char *what;
		int error;
	} cases[] = {
		{ "empty", -ENOEXEC },
		{ "header cut short", -ENOEXEC },
		{ "no ELF magic", -ENOEXEC },
		{ "32-bit", -EOPNOTSUPP },
		{ "big-endian", -EOPNOTSUPP },
		{ "another machine", -EOPNOTSUPP },
		{ "object file", -EOPNOTSUPP },
		{ "core file", -EOPNOTSUPP },
		{ "unknown version", -EBADMSG },
		{ "header size 0", -EBADMSG },
		{ "program header size 0", -EBADMSG },
		{ "program headers past the end", -EBADMSG },
		{ "program headers at 16 EiB", -EBADMSG },
		{ "65,535 program headers", -E2BIG },
		{ "section header size 0", -EBADMSG },
		{ "section headers at 16 EiB", -EBADMSG },
		{ "section headers cut short", -EBADMSG },
		{ "more sections than bytes", -EBADMSG },
		{ "extended section count of 2^60", -E2BIG },
		{ "extended section count outside the file", -EBADMSG },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(elf_image_freep) struct elf_image *image = NULL;
		const char *reason = NULL;
		struct elf_file file;
		size_t size = sizeof(file);
		int r;

		elf_file_make(&file);
		switch (i) {
		case 0:
			size = 0;
			break;
		case 1:
			size = sizeof(file.header) - 1;
			break;
		case 2:
			file.header.e_ident[1] = 'e';
			break;
		case 3:
			file.header.e_ident[EI_CLASS] = ELFCLASS32;
			break;
		case 4:
			file.header.e_ident[EI_DATA] = ELFDATA2MSB;
			break;
		case 5:
			file.header.e_machine = EM_AARCH64;
			break;
		case 6:
			file.header.e_type = ET_REL;
			break;
		case 7:
			file.header.e_type = ET_CORE;
			break;
		case 8:
			file.header.e_version = 2;
			break;
		case 9:
			file.header.e_ehsize = 0;
			break;
		case 10:
			file.header.e_phentsize = 0;
			break;
		case 11:
			file.header.e_phoff = sizeof(file) - 8;
			break;
		case 12:
			file.header.e_phoff = UINT64_MAX - 8;
			break;
		case 13:
			file.header.e_phnum = PN_XNUM;
			break;
		case 14:
			file.header.e_shentsize = 0;
			break;
		case 15:
			file.header.e_shoff = UINT64_MAX - 63;
			break;
		case 16:
			size -= 1;
			break;
		case 17:
			file.header.e_shnum = SHN_LORESERVE;
			break;
		case 18:
			file.header.e_shnum = 0, file.sections[0].sh_size = 1ull << 60;
			break;
		case 19:
			file.header.e_shnum = 0, file.header.e_shoff = sizeof(file) - 63;
			break;
		}
		r = open_bytes(&file, size, &image, &reason);
		if (r != cases[i].error || !reason || image)
			fprintf(stderr, "  %s:\n", cases[i].what);
		CHECK_EQ(r, cases[i].error);
		CHECK(reason && *reason);
		CHECK(!image);
	}
}

TEST(too_many_executable_segments_are_refused)
{
	struct {
		struct elf_file file;
		Elf64_Phdr segments[ELF_CODE_SEGMENTS_MAX + 1];
	} many;
	struct elf_image *image = NULL;

	elf_file_make(&many.file);
	for (size_t i = 0; i < ARRAY_SIZE(many.segments); i++)
		many.segments[i] = many.file.segments[ELF_FILE_SEGMENT_CODE];
	many.file.header.e_phoff = sizeof(many.file);
	many.file.header.e_phnum = ARRAY_SIZE(many.segments);
	CHECK_EQ(open_bytes(&many, sizeof(many), &image, NULL), -E2BIG);
	many.file.header.e_phnum--;
	CHECK_EQ(open_bytes(&many, sizeof(many), &image, NULL), 0);
	elf_image_free(image);
}

TEST(a_file_without_section_headers_is_accepted)
{
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	struct elf_file file;

	elf_file_make(&file);
	file.header.e_shoff = 0;
	file.header.e_shnum = 0;
	file.header.e_shentsize = 0;
	image = open_file(&file);
	CHECK(image && !elf_image_section(image, 0));
}

TEST(a_file_that_shrinks_while_it_is_read_is_an_error)
{
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	_cleanup_close_ int fd = -1;
	struct elf_file file;
	uint8_t byte;

	elf_file_make(&file);
	fd = elf_file_write(&file, sizeof(file));
	CHECK_EQ(elf_image_open(fd, &image, NULL), 0);
	CHECK_EQ(ftruncate(fd, 100), 0);
	CHECK_EQ(elf_image_read(image, 99, &byte, 1), 0);
	CHECK_EQ(elf_image_read(image, offsetof(struct elf_file, code), &byte, 1), -EBADMSG);
}

TEST(a_file_that_is_not_regular_is_refused)
{
	_cleanup_close_ int directory = open("/", O_RDONLY | O_CLOEXEC),
			    null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct elf_image *image = NULL;
	const char *reason = NULL;

	CHECK_EQ(elf_image_open(directory, &image, &reason), -ENOEXEC);
	CHECK_EQ(elf_image_open(null, &image, &reason), -ENOEXEC);
	CHECK_EQ(elf_image_open(-1, &image, &reason), -EBADF);
	CHECK(reason);
	CHECK(!image);
	CHECK(!elf_image_free(NULL));
}

CHECK_MAIN()
