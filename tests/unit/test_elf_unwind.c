/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>

#include "lib/base/macro.h"
#include "lib/elf/symbols.h"
#include "lib/elf/unwind.h"
#include "tests/unit/check.h"
#include "tests/unit/elf_file.h"

/* The addresses of the table are those of the file; its code is where elf_file.h puts it. */
#define FUNCTION (ELF_FILE_ADDRESS + 0x20)
#define FUNCTION_SIZE 0x30

/* A table of one function, as GNU ld writes it, after a small file. */
struct unwind_file {
	struct elf_file file;
	struct {
		uint8_t version, frame_encoding, count_encoding, entry_encoding;
		int32_t frame;
		uint32_t n_entries;
		int32_t code, fde;
	} table;
	struct {
		uint32_t length, id;
		uint8_t version;
		char augmentation[3];
		uint8_t code_alignment, data_alignment, return_register, augmentation_size,
			encoding, padding[3];
	} cie;
	struct {
		uint32_t length, cie;
		int32_t start;
		uint32_t size;
		uint8_t augmentation_size, padding[3];
	} fde;
};

static void unwind_file_make(struct unwind_file *file)
{
	const int64_t table = offsetof(struct unwind_file, table),
		      fde = offsetof(struct unwind_file, fde);

	memset(file, 0, sizeof(*file));
	elf_file_make(&file->file);
	file->file.segments[ELF_FILE_SEGMENT_DATA].p_filesz = sizeof(*file);
	/* In place of the note. */
	file->file.segments[ELF_FILE_SEGMENT_NOTE] = (Elf64_Phdr){
		.p_type = PT_GNU_EH_FRAME,
		.p_offset = (uint64_t)table,
		.p_vaddr = (uint64_t)table,
		.p_filesz = sizeof(file->table),
		.p_memsz = sizeof(file->table),
	};
	file->table.version = 1;
	file->table.frame_encoding = 0x1b;
	file->table.count_encoding = 0x03;
	file->table.entry_encoding = 0x3b;
	file->table.n_entries = 1;
	file->table.code = (int32_t)(FUNCTION - table);
	file->table.fde = (int32_t)(fde - table);
	file->cie.length = sizeof(file->cie) - 4;
	file->cie.version = 1;
	memcpy(file->cie.augmentation, "zR", 3);
	file->cie.code_alignment = 1;
	file->cie.data_alignment = 0x78;
	file->cie.return_register = 16;
	file->cie.augmentation_size = 1;
	file->cie.encoding = 0x1b;
	file->fde.length = sizeof(file->fde) - 4;
	file->fde.cie = (uint32_t)(offsetof(struct unwind_file, fde.cie) -
				   offsetof(struct unwind_file, cie));
	file->fde.start = (int32_t)(FUNCTION - (fde + 8));
	file->fde.size = FUNCTION_SIZE;
}

static int find(const struct unwind_file *file, size_t size, uint64_t address, uint64_t *ret_start,
		uint64_t *ret_size)
{
	_cleanup_close_ int fd = elf_file_write(file, size);
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;

	CHECK_EQ(elf_image_open(fd, &image, NULL), 0);
	return elf_function_bounds(image, address, ret_start, ret_size);
}

TEST(each_byte_of_a_function_leads_to_its_start_and_size_and_none_beside_it)
{
	uint64_t start = 0, size = 0;
	struct unwind_file file;

	unwind_file_make(&file);
	for (uint64_t i = 0; i < FUNCTION_SIZE; i++) {
		CHECK_EQ(find(&file, sizeof(file), FUNCTION + i, &start, &size), 0);
		CHECK_EQ(start, FUNCTION);
		CHECK_EQ(size, FUNCTION_SIZE);
	}
	CHECK_EQ(find(&file, sizeof(file), FUNCTION - 1, &start, &size), -ENOENT);
	CHECK_EQ(find(&file, sizeof(file), FUNCTION + FUNCTION_SIZE, &start, &size), -ENOENT);
	CHECK_EQ(find(&file, sizeof(file), 0x10, &start, &size), -ENOENT);
	file.file.segments[ELF_FILE_SEGMENT_NOTE].p_type = PT_NULL;
	CHECK_EQ(find(&file, sizeof(file), FUNCTION, &start, &size), -ENOENT);
}

TEST(malformed_tables_are_refused_with_their_error)
{
	static const struct {
		const char *what;
		int error;
	} cases[] = {
		{ "version 2", -EOPNOTSUPP },
		{ "a table that is not sorted", -EOPNOTSUPP },
		{ "more entries than the segment holds", -EBADMSG },
		{ "an FDE outside the file", -EBADMSG },
		{ "an FDE that is a CIE", -EBADMSG },
		{ "an FDE that ends the section", -EBADMSG },
		{ "an FDE of other code than in the table", -EBADMSG },
		{ "a CIE before the file", -EBADMSG },
		{ "a CIE that is none", -EBADMSG },
		{ "an augmentation without an end", -EBADMSG },
		{ "an unknown augmentation", -EOPNOTSUPP },
		{ "an indirect encoding", -EOPNOTSUPP },
		{ "a function of no bytes", -EBADMSG },
		{ "a function that leaves the code", -EBADMSG },
		{ "an FDE that is too short", -EBADMSG },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t start, size;
		struct unwind_file file;
		int r;

		unwind_file_make(&file);
		switch (i) {
		case 0:
			file.table.version = 2;
			break;
		case 1:
			file.table.entry_encoding = 0xff;
			break;
		case 2:
			file.table.n_entries = 2;
			file.cie.length = INT32_MAX;
			break;
		case 3:
			file.table.fde = INT32_MAX;
			break;
		case 4:
			file.fde.cie = 0;
			break;
		case 5:
			file.fde.length = 0;
			break;
		case 6:
			file.fde.start++;
			break;
		case 7:
			file.fde.cie = UINT32_MAX;
			break;
		case 8:
			file.cie.id = 1;
			break;
		case 9:
			memset(file.cie.augmentation, 'z', sizeof(file.cie) - 9);
			break;
		case 10:
			file.cie.augmentation[1] = 'Q';
			break;
		case 11:
			file.cie.encoding = 0x9b;
			break;
		case 12:
			file.fde.size = 0;
			break;
		case 13:
			file.fde.size = 0x1000;
			break;
		case 14:
			file.fde.length = 8;
			break;
		}
		r = find(&file, sizeof(file), FUNCTION, &start, &size);
		if (r != cases[i].error)
			fprintf(stderr, "  %s\n", cases[i].what);
		CHECK_EQ(r, cases[i].error);
	}
}

TEST(any_byte_may_be_wrong_and_what_is_found_is_still_code)
{
	static const uint8_t values[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };
	struct unwind_file file;
	uint64_t start, size;

	for (size_t at = offsetof(struct unwind_file, table); at < sizeof(file); at++)
		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			unwind_file_make(&file);
			((uint8_t *)&file)[at] = values[i];
			if (find(&file, sizeof(file), FUNCTION, &start, &size) == 0)
				CHECK(start <= FUNCTION && size <= 256 && FUNCTION - start < size);
		}
	/* The file ends anywhere in the tables. */
	unwind_file_make(&file);
	for (size_t length = offsetof(struct unwind_file, table);
	     length < offsetof(struct unwind_file, fde.augmentation_size); length++)
		CHECK(find(&file, length, FUNCTION, &start, &size) < 0);
}

struct own {
	const struct elf_image *image;
	size_t n;
};

static int compare_symbol(const struct symbol_match *match, void *data)
{
	const uint64_t places[] = { match->address, match->address + match->size / 2,
				    match->address + match->size - 1 };
	struct own *own = data;

	own->n++;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		uint64_t start = 0, size = 0;
		int r = elf_function_bounds(own->image, places[i], &start, &size);

		if (r < 0 || start != match->address || size != match->size)
			fprintf(stderr, "  %s\n", match->name);
		CHECK_EQ(r, 0);
		CHECK_EQ(start, match->address);
		CHECK_EQ(size, match->size);
	}
	return 0;
}

TEST(the_bounds_of_functions_of_this_program_match_their_symbols)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	struct own own = { 0 };

	CHECK_EQ(elf_image_open(fd, &image, NULL), 0);
	own.image = image;
	CHECK_EQ(elf_symbols_match(image, &(struct symbol_pattern){ "elf_*" }, 1, compare_symbol,
				   &own, NULL),
		 0);
	CHECK(own.n > 10);
}

CHECK_MAIN()
