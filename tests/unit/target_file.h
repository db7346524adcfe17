/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ELF file for tests with everything that is read of a target's file: the content of elf_file.h,
 * an exported function that returns the release, .gnu.hash for it, two USDT notes with a semaphore,
 * and section names. Valid as target_file_make leaves it, to be corrupted by a test.
 */
#pragma once

#include "tests/unit/elf_file.h"

#define TARGET_FILE_DATA_ADDRESS 0x403000
#define TARGET_FILE_BASE_ADDRESS 0x404000
#define TARGET_FILE_VERSION_FUNCTION "release_of_it"
#define TARGET_FILE_VERSION "2.21.0"
/* Offsets in the code. */
enum { TARGET_FILE_VERSION_AT = 0x20, TARGET_FILE_RUN_AT = 0x40, TARGET_FILE_PROBE_AT = 0x51 };

enum {
	TARGET_FILE_HASH = ELF_FILE_SECTIONS,
	TARGET_FILE_DATA,
	TARGET_FILE_BASE,
	TARGET_FILE_NOTES,
	TARGET_FILE_NAMES,
	TARGET_FILE_SECTIONS,
};

struct target_file_note {
	Elf64_Nhdr head;
	char owner[8];
	uint64_t address, base, semaphore;
	char strings[64];
} __attribute__((packed));

struct target_file {
	struct elf_file elf;
	Elf64_Phdr segments[ELF_FILE_SEGMENTS + 1];
	struct {
		uint16_t semaphore, other;
		char version[60];
	} data;
	struct {
		uint32_t n_buckets, first_symbol, n_bloom, bloom_shift;
		uint64_t bloom;
		uint32_t bucket, chain;
	} hash;
	struct target_file_note notes[2];
	char names[64];
	Elf64_Shdr sections[TARGET_FILE_SECTIONS];
};

/* strings: provider, name and arguments with a NUL behind each, in 64 bytes. */
static inline struct target_file_note target_file_note(uint64_t address, uint64_t semaphore,
						       const char strings[64])
{
	struct target_file_note note = {
		.head = { .n_namesz = 8, .n_descsz = 24 + 64, .n_type = 3 },
		.owner = "stapsdt",
		.address = address,
		.base = TARGET_FILE_BASE_ADDRESS,
		.semaphore = semaphore,
	};

	memcpy(note.strings, strings, sizeof(note.strings));
	return note;
}

static inline void target_file_make_sections(struct target_file *file)
{
	static const char names[sizeof(file->names)] = "\0.note.stapsdt\0.stapsdt.base\0.gnu.hash";

	memcpy(file->names, names, sizeof(names));
	memcpy(file->sections, file->elf.sections, sizeof(file->elf.sections));
	file->sections[TARGET_FILE_HASH] =
		elf_file_section(SHT_GNU_HASH, offsetof(struct target_file, hash),
				 sizeof(file->hash), ELF_FILE_DYNSYM, 0);
	file->sections[TARGET_FILE_HASH].sh_name = 29;
	file->sections[TARGET_FILE_DATA] = elf_file_section(
		SHT_PROGBITS, offsetof(struct target_file, data), sizeof(file->data), 0, 0);
	file->sections[TARGET_FILE_DATA].sh_flags = SHF_ALLOC | SHF_WRITE;
	file->sections[TARGET_FILE_DATA].sh_addr = TARGET_FILE_DATA_ADDRESS;
	file->sections[TARGET_FILE_BASE] = elf_file_section(SHT_PROGBITS, 0, 1, 0, 0);
	file->sections[TARGET_FILE_BASE].sh_name = 15;
	file->sections[TARGET_FILE_BASE].sh_addr = TARGET_FILE_BASE_ADDRESS;
	file->sections[TARGET_FILE_NOTES] = elf_file_section(
		SHT_NOTE, offsetof(struct target_file, notes), sizeof(file->notes), 0, 0);
	file->sections[TARGET_FILE_NOTES].sh_name = 1;
	file->sections[TARGET_FILE_NAMES] = elf_file_section(
		SHT_STRTAB, offsetof(struct target_file, names), sizeof(file->names), 0, 0);
}

static inline void target_file_make(struct target_file *file)
{
	/* lea of the data's address, relative to what follows it, then ret. */
	uint32_t distance = TARGET_FILE_DATA_ADDRESS + 4 -
			    (ELF_FILE_ADDRESS + TARGET_FILE_VERSION_AT + 7),
		 hash = 5381;
	uint8_t version[] = { 0x48, 0x8d, 0x05, 0, 0, 0, 0, 0xc3 };

	memset(file, 0, sizeof(*file));
	elf_file_make(&file->elf);
	memcpy(version + 3, &distance, sizeof(distance));
	memcpy(file->elf.code + TARGET_FILE_VERSION_AT, version, sizeof(version));
	memset(file->elf.code + TARGET_FILE_RUN_AT, 0x90, 16);
	file->elf.code[TARGET_FILE_RUN_AT] = 0x55;
	ELF_FILE_ADD_DYNAMIC(&file->elf, TARGET_FILE_VERSION_FUNCTION, TARGET_FILE_VERSION_AT);
	ELF_FILE_ADD(&file->elf, TARGET_FILE_VERSION_FUNCTION, TARGET_FILE_VERSION_AT, STB_GLOBAL);
	ELF_FILE_ADD(&file->elf, "_ZN3run3RunEv", TARGET_FILE_RUN_AT, STB_LOCAL);
	strcpy(file->data.version, TARGET_FILE_VERSION);
	for (const char *c = TARGET_FILE_VERSION_FUNCTION; *c; c++)
		hash = hash * 33 + (uint8_t)*c;
	file->hash.n_buckets = file->hash.first_symbol = file->hash.n_bloom = file->hash.bucket = 1;
	file->hash.chain = hash | 1;
	file->notes[0] =
		target_file_note(ELF_FILE_ADDRESS + TARGET_FILE_PROBE_AT, TARGET_FILE_DATA_ADDRESS,
				 (const char[64]){ "server\0batch\0-4@%edi 8@(%rsi)" });
	file->notes[1] = target_file_note(ELF_FILE_ADDRESS + TARGET_FILE_PROBE_AT + 1, 0,
					  (const char[64]){ "server\0done\0" });
	target_file_make_sections(file);
	memcpy(file->segments, file->elf.segments, sizeof(file->elf.segments));
	file->segments[ELF_FILE_SEGMENTS] = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_W,
		.p_offset = offsetof(struct target_file, data),
		.p_vaddr = TARGET_FILE_DATA_ADDRESS,
		.p_filesz = sizeof(file->data),
		.p_memsz = sizeof(file->data),
	};
	file->elf.header.e_phoff = offsetof(struct target_file, segments);
	file->elf.header.e_phnum = ELF_FILE_SEGMENTS + 1;
	file->elf.header.e_shoff = offsetof(struct target_file, sections);
	file->elf.header.e_shnum = TARGET_FILE_SECTIONS;
	file->elf.header.e_shstrndx = TARGET_FILE_NAMES;
}
