#include "daemon/broker/code_range.h"

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
	if (n != sizeof(file) || memcmp(file.e_ident, ELFMAG, SELFMAG) || file.e_ident[EI_CLASS] != ELFCLASS64 ||
	    file.e_phentsize != sizeof(headers[0]) || file.e_phoff > INT64_MAX)
		return -ENOEXEC;
	count = file.e_phnum < HEADERS_MAX ? file.e_phnum : HEADERS_MAX;
	n = pread(fd, headers, count * sizeof(headers[0]), (off_t)file.e_phoff);
	if (n < 0)
		return -errno;
	*ret = (struct code_ranges){};
	for (unsigned i = 0; i < (size_t)n / sizeof(headers[0]); i++) {
		const Elf64_Phdr *h = &headers[i];
		struct code_range range = { .start = h->p_offset };

		if (h->p_type != PT_LOAD || __builtin_add_overflow(h->p_offset, h->p_filesz, &range.end))
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

bool code_ranges_hold_counter(const struct code_ranges *ranges, uint64_t offset)
{
	for (unsigned i = 0; i < ranges->n_data; i++)
		if (offset >= ranges->data[i].start && offset < ranges->data[i].end && ranges->data[i].end - offset >= 2)
			return offset % 2 == 0;
	return false;
}
