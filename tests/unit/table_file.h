/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ELF file for tests with an API struct: an exported function returns { get, version }, get()
 * returns a table of functions and refers to a table of strings, too. Valid as table_file_make
 * leaves it, to be spoiled by a test.
 */
#pragma once

#include "tests/unit/elf_file.h"

#define TABLE_FILE_DATA 0x403000
#define TABLE_FILE_FUNCTION "get_api_base"
#define TABLE_FILE_ENTRIES 9
#define TABLE_FILE_STRINGS 5
/* The entry whose function has an end that is known. */
#define TABLE_FILE_PLANNED 3

/* Offsets in the code, of functions of 16 bytes; entry n of the table is at ENTRY_AT + n. */
enum { TABLE_FILE_BASE_AT = 0x20, TABLE_FILE_GET_AT = 0x40, TABLE_FILE_ENTRY_AT = 0x80 };

/* Indices of the data's words. */
enum {
	TABLE_FILE_BASE = 1,
	TABLE_FILE_TABLE = 4,
	TABLE_FILE_NAMES = TABLE_FILE_TABLE + TABLE_FILE_ENTRIES + 1,
	TABLE_FILE_OTHER = TABLE_FILE_NAMES + TABLE_FILE_STRINGS + 1,
	TABLE_FILE_WORDS = TABLE_FILE_OTHER + TABLE_FILE_ENTRIES + 1,
};

struct table_file_fde {
	uint32_t length, cie;
	int32_t start;
	uint32_t size;
	uint8_t augmentation_size, padding[3];
};

struct table_file {
	struct elf_file elf;
	Elf64_Phdr segments[5];
	Elf64_Shdr sections[ELF_FILE_SECTIONS + 1];
	struct {
		uint32_t n_buckets, first_symbol, n_bloom, bloom_shift;
		uint64_t bloom;
		uint32_t bucket, chain;
	} hash;
	struct {
		uint8_t version, frame_encoding, count_encoding, entry_encoding;
		int32_t frame;
		uint32_t n_entries;
		struct {
			int32_t code, fde;
		} entries[3];
	} unwind;
	struct {
		uint32_t length, id;
		uint8_t version;
		char augmentation[3];
		uint8_t code_alignment, data_alignment, return_register, augmentation_size,
			encoding, padding[3];
	} cie;
	struct table_file_fde fdes[3];
	Elf64_Dyn dynamic[3];
	Elf64_Rela rela[TABLE_FILE_WORDS];
	char strings[8 * TABLE_FILE_STRINGS];
	uint64_t words[TABLE_FILE_WORDS];
};

static inline uint64_t table_file_word(unsigned index)
{
	return TABLE_FILE_DATA + 8 * index;
}

/* Makes a word a pointer; there are as many relocations as words. */
static inline void table_file_point(struct table_file *file, unsigned word, uint64_t to)
{
	file->rela[word] =
		(Elf64_Rela){ .r_offset = table_file_word(word),
			      .r_info = ELF64_R_INFO(0, to ? R_X86_64_RELATIVE : R_X86_64_NONE),
			      .r_addend = (int64_t)to };
}

/* Puts lea of a word's address into rax there; returns the bytes. */
static inline unsigned table_file_lea(struct table_file *file, unsigned at, unsigned word)
{
	uint32_t distance = (uint32_t)(table_file_word(word) - (ELF_FILE_ADDRESS + at + 7));
	uint8_t code[7] = { 0x48, 0x8d, 0x05 };

	memcpy(code + 3, &distance, sizeof(distance));
	memcpy(file->elf.code + at, code, sizeof(code));
	return sizeof(code);
}

static inline void table_file_make_unwind(struct table_file *file)
{
	static const unsigned starts[3] = { TABLE_FILE_BASE_AT, TABLE_FILE_GET_AT,
					    TABLE_FILE_ENTRY_AT + TABLE_FILE_PLANNED };
	const int64_t table = offsetof(struct table_file, unwind);

	file->unwind.version = 1;
	file->unwind.frame_encoding = 0x1b;
	file->unwind.count_encoding = 0x03;
	file->unwind.entry_encoding = 0x3b;
	file->unwind.n_entries = 3;
	file->cie.length = sizeof(file->cie) - 4;
	file->cie.version = 1;
	memcpy(file->cie.augmentation, "zR", 3);
	file->cie.code_alignment = 1;
	file->cie.data_alignment = 0x78;
	file->cie.return_register = 16;
	file->cie.augmentation_size = 1;
	file->cie.encoding = 0x1b;
	for (unsigned i = 0; i < 3; i++) {
		int64_t fde = (int64_t)(offsetof(struct table_file, fdes) +
					i * sizeof(file->fdes[0])),
			code = ELF_FILE_ADDRESS + starts[i];

		file->unwind.entries[i].code = (int32_t)(code - table);
		file->unwind.entries[i].fde = (int32_t)(fde - table);
		file->fdes[i] = (struct table_file_fde){
			.length = sizeof(file->fdes[i]) - 4,
			.cie = (uint32_t)(fde + 4 - (int64_t)offsetof(struct table_file, cie)),
			.start = (int32_t)(code - (fde + 8)),
			.size = 0x20,
		};
	}
}

static inline void table_file_make_head(struct table_file *file)
{
	memcpy(file->segments, file->elf.segments, sizeof(file->elf.segments));
	file->segments[ELF_FILE_SEGMENT_DATA].p_filesz = offsetof(struct table_file, words);
	file->segments[ELF_FILE_SEGMENT_NOTE] = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_W,
		.p_offset = offsetof(struct table_file, words),
		.p_vaddr = TABLE_FILE_DATA,
		.p_filesz = sizeof(file->words),
		.p_memsz = sizeof(file->words),
	};
	file->segments[3] = (Elf64_Phdr){ .p_type = PT_DYNAMIC,
					  .p_vaddr = offsetof(struct table_file, dynamic),
					  .p_filesz = sizeof(file->dynamic) };
	file->segments[4] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME,
					  .p_offset = offsetof(struct table_file, unwind),
					  .p_vaddr = offsetof(struct table_file, unwind),
					  .p_filesz = sizeof(file->unwind),
					  .p_memsz = sizeof(file->unwind) };
	file->dynamic[0] = (Elf64_Dyn){ DT_RELA, { .d_ptr = offsetof(struct table_file, rela) } };
	file->dynamic[1] = (Elf64_Dyn){ DT_RELASZ, { .d_val = sizeof(file->rela) } };
	memcpy(file->sections, file->elf.sections, sizeof(file->elf.sections));
	file->sections[ELF_FILE_SECTIONS] =
		elf_file_section(SHT_GNU_HASH, offsetof(struct table_file, hash),
				 sizeof(file->hash), ELF_FILE_DYNSYM, 0);
	file->elf.header.e_phoff = offsetof(struct table_file, segments);
	file->elf.header.e_phnum = 5;
	file->elf.header.e_shoff = offsetof(struct table_file, sections);
	file->elf.header.e_shnum = ELF_FILE_SECTIONS + 1;
}

static inline void table_file_make(struct table_file *file)
{
	uint32_t hash = 5381;
	unsigned at;

	memset(file, 0, sizeof(*file));
	elf_file_make(&file->elf);
	memset(file->elf.code, 0x90, sizeof(file->elf.code));
	at = TABLE_FILE_BASE_AT + table_file_lea(file, TABLE_FILE_BASE_AT, TABLE_FILE_BASE);
	file->elf.code[at] = 0xc3;
	at = TABLE_FILE_GET_AT + table_file_lea(file, TABLE_FILE_GET_AT, TABLE_FILE_TABLE);
	at += table_file_lea(file, at, TABLE_FILE_NAMES);
	file->elf.code[at] = 0xc3;
	ELF_FILE_ADD_DYNAMIC(&file->elf, TABLE_FILE_FUNCTION, TABLE_FILE_BASE_AT);
	for (const char *c = TABLE_FILE_FUNCTION; *c; c++)
		hash = hash * 33 + (uint8_t)*c;
	file->hash.n_buckets = file->hash.first_symbol = file->hash.n_bloom = file->hash.bucket = 1;
	file->hash.chain = hash | 1;
	table_file_point(file, TABLE_FILE_BASE, ELF_FILE_ADDRESS + TABLE_FILE_GET_AT);
	table_file_point(file, TABLE_FILE_BASE + 1, ELF_FILE_ADDRESS + TABLE_FILE_ENTRY_AT);
	for (unsigned i = 0; i < TABLE_FILE_ENTRIES; i++)
		table_file_point(file, TABLE_FILE_TABLE + i,
				 ELF_FILE_ADDRESS + TABLE_FILE_ENTRY_AT + i);
	for (unsigned i = 0; i < TABLE_FILE_STRINGS; i++) {
		memcpy(file->strings + 8 * i, "OP_", 3);
		file->strings[8 * i + 3] = (char)('A' + i);
		table_file_point(file, TABLE_FILE_NAMES + i,
				 offsetof(struct table_file, strings) + 8 * i);
	}
	table_file_make_unwind(file);
	table_file_make_head(file);
}
