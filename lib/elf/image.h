/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ELF file of a target, read through a descriptor. The file may be hostile and may change or
 * shrink while it is read, so nothing of it is mapped: every read is a bounded pread, and every
 * offset and size is checked against the size of the file. Only 64-bit little-endian x86-64
 * executables and shared libraries are accepted.
 *
 * Errors of this module and of symbols.h are an errno and, through ret_reason, a human-readable
 * text. The reason is a constant string, set on failure only; the pointer may be NULL.
 *   -ENOEXEC      not an ELF file, or not a regular file
 *   -EOPNOTSUPP   an ELF file of another machine, class, byte order or type
 *   -EBADMSG      malformed, or the file shrank while it was read
 *   -E2BIG        more sections, segments, symbols, matches or work than the limits allow
 *   -ENOMEM, and what fstat, fcntl and pread return
 */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ELF_SECTIONS_MAX 65535
#define ELF_SEGMENTS_MAX 4096
/* Executable segments; linkers usually create one, rarely a few. */
#define ELF_CODE_SEGMENTS_MAX 64

struct elf_image;

/* Reads the headers of the file behind fd, which is duplicated: the caller keeps its own. Its
 * position is not used. */
int elf_image_open(int fd, struct elf_image **ret, const char **ret_reason);
struct elf_image *elf_image_free(struct elf_image *image);

/* The size of the file in bytes when it was opened. */
uint64_t elf_image_size(const struct elf_image *image);

/*
 * The GNU build-id in lower-case hexadecimal, "" if the file has none. It is a label that anyone
 * can copy. The string lives as long as the image.
 */
const char *elf_image_build_id(const struct elf_image *image);

/*
 * Whether the file was owned by root, and writable by no other user, when it was opened: only then
 * does its build-id identify its content.
 */
bool elf_image_is_system(const struct elf_image *image);

/* Whether it is linked to the addresses at which it runs, so that pointers in its data need no
 * relocation. */
bool elf_image_is_fixed(const struct elf_image *image);

/* The first section of this type (SHT_…), and the section with this index; NULL if there is
 * none. */
const Elf64_Shdr *elf_image_find_section(const struct elf_image *image, uint32_t type);
const Elf64_Shdr *elf_image_section(const struct elf_image *image, uint32_t index);

/* The first section of this type and name (at most 63 bytes); NULL if there is none. */
const Elf64_Shdr *elf_image_find_named(const struct elf_image *image, uint32_t type,
				       const char *name);

/* The program header with this index as it is in the file, of any type and unchecked; NULL past the
 * last. */
const Elf64_Phdr *elf_image_segment(const struct elf_image *image, size_t index);

/*
 * The file offset of the byte at a virtual address, by all PT_LOADs that lie in the file, and how
 * many bytes from there on belong to the same one (at least 1). -ENOENT: nothing of the file.
 */
int elf_image_locate(const struct elf_image *image, uint64_t address, uint64_t *ret_offset,
		     uint64_t *ret_room);

/*
 * The file offset of the code at a virtual address, by the executable PT_LOADs; uprobes use file
 * offsets. An executable segment outside the file holds no code. Returns -ENOENT if the file has no
 * code at that address.
 */
int elf_image_code_offset(const struct elf_image *image, uint64_t address, uint64_t *ret);

/* Whether all of size bytes at the file offset lie in one executable PT_LOAD. */
bool elf_image_is_code(const struct elf_image *image, uint64_t offset, uint64_t size);

/*
 * Reads up to size bytes of code at a file offset, fewer if the segment ends; sets *ret_size to the
 * number read, at least 1. Returns -ENOENT if the offset is not code, else what elf_image_read
 * returns.
 */
int elf_image_read_code(const struct elf_image *image, uint64_t offset, void *buffer, size_t size,
			size_t *ret_size);

/* Reads exactly size bytes at a file offset. Returns -EBADMSG if they are not all in the file. */
int elf_image_read(const struct elf_image *image, uint64_t offset, void *buffer, size_t size);

static inline void elf_image_freep(struct elf_image **image)
{
	elf_image_free(*image);
}
