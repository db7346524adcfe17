/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small ELF file for tests: valid as elf_file_make leaves it, so that a test can corrupt one
 * field of it, then written into a memfd. Its code is at addresses that differ from file offsets,
 * as in real libraries.
 */
#pragma once

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ELF_FILE_ADDRESS 0x401000

enum { ELF_FILE_SYMTAB = 1, ELF_FILE_STRTAB, ELF_FILE_DYNSYM, ELF_FILE_DYNSTR, ELF_FILE_SECTIONS };
enum { ELF_FILE_SEGMENT_DATA, ELF_FILE_SEGMENT_CODE, ELF_FILE_SEGMENT_NOTE, ELF_FILE_SEGMENTS };

struct elf_file {
	Elf64_Ehdr header;
	Elf64_Phdr segments[ELF_FILE_SEGMENTS];
	Elf64_Nhdr note;
	char note_name[4];
	uint8_t note_id[20];
	uint8_t code[256];
	Elf64_Sym symbols[8], dynamic[4];
	char strings[256], dynamic_strings[128];
	Elf64_Shdr sections[ELF_FILE_SECTIONS];
};

/* Adds a function at code[at] to a symbol table and its name to a string table; the caller does not
 * add too many. */
static inline void elf_file_add(Elf64_Sym *table, char *strings, const char *name, uint64_t at,
				uint8_t bind)
{
	size_t i = 1, end = 1;

	while (table[i].st_info)
		i++;
	while (strings[end])
		end += strlen(strings + end) + 1;
	strcpy(strings + end, name);
	table[i] = (Elf64_Sym){
		.st_name = (uint32_t)end,
		.st_info = ELF64_ST_INFO(bind, STT_FUNC),
		.st_shndx = 1,
		.st_value = ELF_FILE_ADDRESS + at,
		.st_size = 16,
	};
}

#define ELF_FILE_ADD(file, name, at, bind)                                                         \
	elf_file_add((file)->symbols, (file)->strings, name, at, bind)
#define ELF_FILE_ADD_DYNAMIC(file, name, at)                                                       \
	elf_file_add((file)->dynamic, (file)->dynamic_strings, name, at, STB_GLOBAL)

static inline Elf64_Shdr elf_file_section(uint32_t type, uint64_t offset, uint64_t size,
					  uint32_t link, uint64_t entry)
{
	return (Elf64_Shdr){ .sh_type = type,
			     .sh_offset = offset,
			     .sh_size = size,
			     .sh_link = link,
			     .sh_entsize = entry };
}

/* A file with a build-id (00 01 … 13), 256 bytes of code (00 01 … ff) and no symbols yet. */
static inline void elf_file_make(struct elf_file *file)
{
	*file = (struct elf_file){
		.header = {
			.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			.e_type = ET_DYN,
			.e_machine = EM_X86_64,
			.e_version = EV_CURRENT,
			.e_ehsize = sizeof(Elf64_Ehdr),
			.e_phoff = offsetof(struct elf_file, segments),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = ELF_FILE_SEGMENTS,
			.e_shoff = offsetof(struct elf_file, sections),
			.e_shentsize = sizeof(Elf64_Shdr),
			.e_shnum = ELF_FILE_SECTIONS,
		},
		.segments = {
			{ .p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = offsetof(struct elf_file, code) },
			{ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = offsetof(struct elf_file, code),
			  .p_vaddr = ELF_FILE_ADDRESS, .p_filesz = sizeof(file->code), .p_memsz = 4096 },
			{ .p_type = PT_NOTE, .p_offset = offsetof(struct elf_file, note), .p_filesz = 36,
			  .p_align = 4 },
		},
		.note = { .n_namesz = 4, .n_descsz = 20, .n_type = NT_GNU_BUILD_ID },
		.note_name = "GNU",
	};
	for (size_t i = 0; i < sizeof(file->note_id); i++)
		file->note_id[i] = (uint8_t)i;
	for (size_t i = 0; i < sizeof(file->code); i++)
		file->code[i] = (uint8_t)i;
	file->sections[ELF_FILE_SYMTAB] =
		elf_file_section(SHT_SYMTAB, offsetof(struct elf_file, symbols),
				 sizeof(file->symbols), ELF_FILE_STRTAB, sizeof(Elf64_Sym));
	file->sections[ELF_FILE_STRTAB] = elf_file_section(
		SHT_STRTAB, offsetof(struct elf_file, strings), sizeof(file->strings), 0, 0);
	file->sections[ELF_FILE_DYNSYM] =
		elf_file_section(SHT_DYNSYM, offsetof(struct elf_file, dynamic),
				 sizeof(file->dynamic), ELF_FILE_DYNSTR, sizeof(Elf64_Sym));
	file->sections[ELF_FILE_DYNSTR] =
		elf_file_section(SHT_STRTAB, offsetof(struct elf_file, dynamic_strings),
				 sizeof(file->dynamic_strings), 0, 0);
}

/* Returns a new descriptor of a file with the first size bytes of data; -1 if that fails. */
static inline int elf_file_write(const void *data, size_t size)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);

	if (fd >= 0 && write(fd, data, size) != (ssize_t)size) {
		close(fd);
		return -1;
	}
	return fd;
}
