/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/elf/image.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/macro.h"

#define BUILD_ID_BYTES_MAX 64
/* Real note sections hold a few hundred bytes; notes beyond this are ignored. */
#define NOTES_BYTES_MAX 65536
#define NOTE_SECTIONS_MAX 64
#define SECTION_NAME_MAX 64

struct elf_image {
	int fd;
	uint64_t size;
	uint16_t type;
	bool is_system;
	Elf64_Shdr *sections;
	uint32_t n_sections, section_names;
	Elf64_Phdr *segments;
	size_t n_segments;
	Elf64_Phdr code[ELF_CODE_SEGMENTS_MAX];
	size_t n_code;
	size_t n_notes;
	char build_id[2 * BUILD_ID_BYTES_MAX + 1];
};

static int fail(const char **ret_reason, int error, const char *reason)
{
	if (ret_reason)
		*ret_reason = reason;
	return error;
}

static int fail_read(const char **ret_reason, int error)
{
	return fail(ret_reason, error,
		    error == -EBADMSG ? "the file shrank while it was read"
				      : "the file cannot be read");
}

static bool is_inside(uint64_t offset, uint64_t size, uint64_t limit)
{
	return offset <= limit && size <= limit - offset;
}

int elf_image_read(const struct elf_image *image, uint64_t offset, void *buffer, size_t size)
{
	uint8_t *p = buffer;

	if (!is_inside(offset, size, image->size))
		return -EBADMSG;
	while (size > 0) {
		ssize_t n = pread(image->fd, p, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EBADMSG;
		p += n;
		offset += (uint64_t)n;
		size -= (size_t)n;
	}
	return 0;
}

static int check_header(const Elf64_Ehdr *header, const char **ret_reason)
{
	if (memcmp(header->e_ident, ELFMAG, SELFMAG))
		return fail(ret_reason, -ENOEXEC, "not an ELF file");
	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
	    header->e_machine != EM_X86_64)
		return fail(ret_reason, -EOPNOTSUPP,
			    "an ELF file for a machine other than 64-bit x86");
	if (header->e_type != ET_EXEC && header->e_type != ET_DYN)
		return fail(ret_reason, -EOPNOTSUPP,
			    "an ELF file, but neither an executable nor a shared library");
	if (header->e_version != EV_CURRENT || header->e_ehsize < sizeof(*header))
		return fail(ret_reason, -EBADMSG, "the ELF header is malformed");
	return 0;
}

/* Reads the build-id from a note section or segment if it contains one. Malformed notes are
 * skipped. */
static int read_build_id(struct elf_image *image, uint64_t offset, uint64_t size, uint64_t align)
{
	_cleanup_free_ uint8_t *notes = NULL;
	size_t at = 0;
	int r;

	if (image->build_id[0] || image->n_notes == NOTE_SECTIONS_MAX || size == 0 ||
	    !is_inside(offset, size, image->size))
		return 0;
	image->n_notes++;
	size = MIN(size, NOTES_BYTES_MAX);
	align = align == 8 ? 8 : 4;
	notes = malloc(size);
	if (!notes)
		return -ENOMEM;
	r = elf_image_read(image, offset, notes, size);
	if (r < 0)
		return r;
	while (is_inside(at, sizeof(Elf64_Nhdr), size)) {
		Elf64_Nhdr note;
		uint64_t name, description;

		memcpy(&note, notes + at, sizeof(note));
		name = at + sizeof(note);
		description = (name + note.n_namesz + align - 1) & ~(align - 1);
		if (!is_inside(description, note.n_descsz, size))
			break;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp(notes + name, "GNU", 4) && note.n_descsz > 0 &&
		    note.n_descsz <= BUILD_ID_BYTES_MAX) {
			for (uint32_t i = 0; i < note.n_descsz; i++) {
				image->build_id[2 * i] =
					"0123456789abcdef"[notes[description + i] >> 4];
				image->build_id[2 * i + 1] =
					"0123456789abcdef"[notes[description + i] & 15];
			}
			break;
		}
		at = (description + note.n_descsz + align - 1) & ~(align - 1);
	}
	return 0;
}

static int read_segments(struct elf_image *image, const Elf64_Ehdr *header, const char **ret_reason)
{
	size_t size = header->e_phnum * sizeof(*image->segments);
	int r;

	if (header->e_phnum == 0)
		return 0;
	if (header->e_phnum > ELF_SEGMENTS_MAX)
		return fail(ret_reason, -E2BIG, "the ELF file has too many program headers");
	if (header->e_phentsize != sizeof(*image->segments) ||
	    !is_inside(header->e_phoff, size, image->size))
		return fail(ret_reason, -EBADMSG,
			    "the ELF program headers are malformed or lie outside the file");
	image->segments = malloc(size);
	if (!image->segments)
		return fail(ret_reason, -ENOMEM, "out of memory");
	r = elf_image_read(image, header->e_phoff, image->segments, size);
	if (r < 0)
		return fail_read(ret_reason, r);
	image->n_segments = header->e_phnum;
	for (size_t i = 0; i < header->e_phnum; i++) {
		const Elf64_Phdr *segment = &image->segments[i];

		if (segment->p_type == PT_LOAD && segment->p_flags & PF_X &&
		    segment->p_filesz > 0 &&
		    is_inside(segment->p_offset, segment->p_filesz, image->size) &&
		    is_inside(segment->p_vaddr, segment->p_filesz, UINT64_MAX)) {
			if (image->n_code == ELF_CODE_SEGMENTS_MAX)
				return fail(ret_reason, -E2BIG,
					    "the ELF file has too many executable segments");
			image->code[image->n_code++] = *segment;
		} else if (segment->p_type == PT_NOTE) {
			r = read_build_id(image, segment->p_offset, segment->p_filesz,
					  segment->p_align);
			if (r < 0)
				return fail_read(ret_reason, r);
		}
	}
	return 0;
}

static int read_sections(struct elf_image *image, const Elf64_Ehdr *header, const char **ret_reason)
{
	uint64_t count = header->e_shnum;
	int r;

	if (header->e_shoff == 0)
		return 0;
	if (header->e_shentsize != sizeof(*image->sections))
		return fail(ret_reason, -EBADMSG, "the ELF section headers are malformed");
	if (count == 0) {
		/* More sections than the header can count: the first one holds their number. */
		Elf64_Shdr first;

		if (!is_inside(header->e_shoff, sizeof(first), image->size))
			return fail(ret_reason, -EBADMSG,
				    "the ELF section headers lie outside the file");
		r = elf_image_read(image, header->e_shoff, &first, sizeof(first));
		if (r < 0)
			return fail_read(ret_reason, r);
		count = first.sh_size;
	}
	if (count > ELF_SECTIONS_MAX)
		return fail(ret_reason, -E2BIG, "the ELF file has too many sections");
	if (count == 0)
		return 0;
	if (!is_inside(header->e_shoff, count * sizeof(*image->sections), image->size))
		return fail(ret_reason, -EBADMSG, "the ELF section headers lie outside the file");
	image->sections = malloc(count * sizeof(*image->sections));
	if (!image->sections)
		return fail(ret_reason, -ENOMEM, "out of memory");
	r = elf_image_read(image, header->e_shoff, image->sections,
			   count * sizeof(*image->sections));
	if (r < 0)
		return fail_read(ret_reason, r);
	image->n_sections = (uint32_t)count;
	image->section_names =
		header->e_shstrndx == SHN_XINDEX ? image->sections[0].sh_link : header->e_shstrndx;
	return 0;
}

int elf_image_open(int fd, struct elf_image **ret, const char **ret_reason)
{
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	Elf64_Ehdr header;
	struct stat st;
	int r;

	image = calloc(1, sizeof(*image));
	if (!image)
		return fail(ret_reason, -ENOMEM, "out of memory");
	image->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (image->fd < 0 || fstat(image->fd, &st) < 0)
		return fail(ret_reason, -errno, "the file cannot be read");
	if (!S_ISREG(st.st_mode))
		return fail(ret_reason, -ENOEXEC, "not a regular file");
	image->size = (uint64_t)st.st_size;
	image->is_system = st.st_uid == 0 && !(st.st_mode & (S_IWGRP | S_IWOTH));
	if (image->size < sizeof(header))
		return fail(ret_reason, -ENOEXEC, "the file is too short for an ELF file");
	r = elf_image_read(image, 0, &header, sizeof(header));
	if (r < 0)
		return fail_read(ret_reason, r);
	r = check_header(&header, ret_reason);
	if (r < 0)
		return r;
	image->type = header.e_type;
	r = read_segments(image, &header, ret_reason);
	if (r < 0)
		return r;
	r = read_sections(image, &header, ret_reason);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < image->n_sections && !image->build_id[0]; i++) {
		const Elf64_Shdr *section = &image->sections[i];

		if (section->sh_type != SHT_NOTE)
			continue;
		r = read_build_id(image, section->sh_offset, section->sh_size,
				  section->sh_addralign);
		if (r < 0)
			return fail_read(ret_reason, r);
	}
	*ret = TAKE_PTR(image);
	return 0;
}

struct elf_image *elf_image_free(struct elf_image *image)
{
	if (image) {
		safe_close(image->fd);
		free(image->sections);
		free(image->segments);
		free(image);
	}
	return NULL;
}

uint64_t elf_image_size(const struct elf_image *image)
{
	return image->size;
}

const char *elf_image_build_id(const struct elf_image *image)
{
	return image->build_id;
}

bool elf_image_is_system(const struct elf_image *image)
{
	return image->is_system;
}

bool elf_image_is_fixed(const struct elf_image *image)
{
	return image->type == ET_EXEC;
}

const Elf64_Shdr *elf_image_find_section(const struct elf_image *image, uint32_t type)
{
	for (uint32_t i = 0; i < image->n_sections; i++)
		if (image->sections[i].sh_type == type)
			return &image->sections[i];
	return NULL;
}

const Elf64_Shdr *elf_image_section(const struct elf_image *image, uint32_t index)
{
	return index < image->n_sections ? &image->sections[index] : NULL;
}

const Elf64_Shdr *elf_image_find_named(const struct elf_image *image, uint32_t type,
				       const char *name)
{
	const Elf64_Shdr *names = elf_image_section(image, image->section_names);
	size_t size = strlen(name) + 1;
	char found[SECTION_NAME_MAX];

	if (!names || names->sh_type != SHT_STRTAB || size > sizeof(found))
		return NULL;
	for (uint32_t i = 0; i < image->n_sections; i++) {
		const Elf64_Shdr *section = &image->sections[i];

		if (section->sh_type == type && is_inside(section->sh_name, size, names->sh_size) &&
		    is_inside(names->sh_offset, names->sh_size, image->size) &&
		    elf_image_read(image, names->sh_offset + section->sh_name, found, size) == 0 &&
		    !memcmp(found, name, size))
			return section;
	}
	return NULL;
}

const Elf64_Phdr *elf_image_segment(const struct elf_image *image, size_t index)
{
	return index < image->n_segments ? &image->segments[index] : NULL;
}

int elf_image_locate(const struct elf_image *image, uint64_t address, uint64_t *ret_offset,
		     uint64_t *ret_room)
{
	for (size_t i = 0; i < image->n_segments; i++) {
		const Elf64_Phdr *segment = &image->segments[i];

		if (segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
		    address - segment->p_vaddr < segment->p_filesz &&
		    is_inside(segment->p_offset, segment->p_filesz, image->size)) {
			*ret_offset = segment->p_offset + (address - segment->p_vaddr);
			*ret_room = segment->p_filesz - (address - segment->p_vaddr);
			return 0;
		}
	}
	return -ENOENT;
}

int elf_image_code_offset(const struct elf_image *image, uint64_t address, uint64_t *ret)
{
	for (size_t i = 0; i < image->n_code; i++) {
		const Elf64_Phdr *segment = &image->code[i];

		if (address >= segment->p_vaddr && address - segment->p_vaddr < segment->p_filesz) {
			*ret = segment->p_offset + (address - segment->p_vaddr);
			return 0;
		}
	}
	return -ENOENT;
}

/* The executable segment that contains the byte at this file offset. */
static const Elf64_Phdr *find_code(const struct elf_image *image, uint64_t offset)
{
	for (size_t i = 0; i < image->n_code; i++) {
		const Elf64_Phdr *segment = &image->code[i];

		if (offset >= segment->p_offset && offset - segment->p_offset < segment->p_filesz)
			return segment;
	}
	return NULL;
}

bool elf_image_is_code(const struct elf_image *image, uint64_t offset, uint64_t size)
{
	const Elf64_Phdr *segment = find_code(image, offset);

	return segment && size <= segment->p_filesz - (offset - segment->p_offset);
}

int elf_image_read_code(const struct elf_image *image, uint64_t offset, void *buffer, size_t size,
			size_t *ret_size)
{
	const Elf64_Phdr *segment = find_code(image, offset);
	int r;

	if (!segment)
		return -ENOENT;
	size = MIN(size, segment->p_filesz - (offset - segment->p_offset));
	r = elf_image_read(image, offset, buffer, size);
	if (r < 0)
		return r;
	*ret_size = size;
	return 0;
}
