/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/kernel/code_range.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define HEADERS_MAX 64

int code_ranges_read(int fd, struct code_ranges *ret)
{
	Elf64_Phdr headers[HEADERS_MAX];
	Elf64_Ehdr file;
	unsigned count;
	ssize_t n;

	n = pread(fd, &file, sizeof(file), 0);
	if (n < 0)
		return -errno;
	if (n != sizeof(file) || memcmp(file.e_ident, ELFMAG, SELFMAG) ||
	    file.e_ident[EI_CLASS] != ELFCLASS64 || file.e_phentsize != sizeof(headers[0]) ||
	    file.e_phoff > INT64_MAX)
		return -ENOEXEC;
	count = file.e_phnum < HEADERS_MAX ? file.e_phnum : HEADERS_MAX;
	n = pread(fd, headers, count * sizeof(headers[0]), (off_t)file.e_phoff);
	if (n < 0)
		return -errno;
	*ret = (struct code_ranges){};
	for (unsigned i = 0; i < (size_t)n / sizeof(headers[0]); i++) {
		const Elf64_Phdr *h = &headers[i];
		struct code_range range = { .start = h->p_offset, .address = h->p_vaddr };

		if (h->p_type != PT_LOAD ||
		    __builtin_add_overflow(h->p_offset, h->p_filesz, &range.end))
			continue;
		if (h->p_flags & PF_X && ret->n < CODE_RANGES_MAX)
			ret->range[ret->n++] = range;
		else if (h->p_flags & PF_W && ret->n_data < CODE_RANGES_MAX)
			ret->data[ret->n_data++] = range;
	}
	return ret->n ? 0 : -ENOEXEC;
}

bool code_ranges_contain(const struct code_ranges *ranges, uint64_t offset)
{
	for (unsigned i = 0; i < ranges->n; i++)
		if (offset >= ranges->range[i].start && offset < ranges->range[i].end)
			return true;
	return false;
}

/* Whether an address belongs to this offset of the file. */
static bool is_at(const struct code_range *ranges, unsigned n, uint64_t address, uint64_t offset,
		  uint64_t size)
{
	for (unsigned i = 0; i < n; i++)
		if (offset >= ranges[i].start && offset < ranges[i].end &&
		    ranges[i].end - offset >= size)
			return address - ranges[i].address == offset - ranges[i].start;
	return false;
}

int code_ranges_check_counter(const struct code_ranges *ranges, int fd, uint64_t note,
			      uint64_t instruction, uint64_t counter)
{
	struct {
		Elf64_Nhdr head;
		char owner[8];
		/* Three addresses: of the instruction, of the section's base, of the counter. */
		uint32_t words[6];
	} found;
	uint64_t addresses[3];
	ssize_t n;

	if (note > INT64_MAX)
		return -EINVAL;
	n = pread(fd, &found, sizeof(found), (off_t)note);
	if (n < 0)
		return -errno;
	memcpy(addresses, found.words, sizeof(addresses));
	if (n != sizeof(found) || found.head.n_type != 3 ||
	    found.head.n_namesz != sizeof(found.owner) || found.head.n_descsz < sizeof(addresses) ||
	    memcmp(found.owner, "stapsdt", sizeof(found.owner)))
		return -EINVAL;
	return is_at(ranges->range, ranges->n, addresses[0], instruction, 1) && counter % 2 == 0 &&
			       is_at(ranges->data, ranges->n_data, addresses[2], counter,
				     sizeof(uint16_t))
		       ? 0
		       : -EINVAL;
}
