/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/elf/unwind.h"

#include <errno.h>
#include <string.h>

#include "lib/base/macro.h"
#include "lib/elf/unwind_bytes.h"

/* Of a CIE up to its pointer encoding; real ones take 20 to 30. */
#define CIE_BYTES_MAX 256

/* The head of .eh_frame_hdr as linkers write it: both numbers have four bytes. */
struct table_head {
	uint8_t version, frame_encoding, count_encoding, entry_encoding;
	int32_t frame;
	uint32_t n_entries;
};

static int read_at(const struct elf_image *image, uint64_t address, void *buffer, size_t size)
{
	uint64_t offset, room;

	if (elf_image_locate(image, address, &offset, &room) < 0 || room < size)
		return -EBADMSG;
	return elf_image_read(image, offset, buffer, size);
}

static const Elf64_Phdr *find_table(const struct elf_image *image)
{
	const Elf64_Phdr *segment;

	for (size_t i = 0; (segment = elf_image_segment(image, i)); i++)
		if (segment->p_type == PT_GNU_EH_FRAME)
			return segment;
	return NULL;
}

int elf_unwind_table(const struct elf_image *image, uint64_t *ret_address, uint32_t *ret_n)
{
	const Elf64_Phdr *table = find_table(image);
	struct table_head head;
	int r;

	if (!table)
		return -ENOENT;
	if (table->p_memsz < sizeof(head))
		return -EBADMSG;
	r = read_at(image, table->p_vaddr, &head, sizeof(head));
	if (r < 0)
		return r;
	if (head.version != 1 || head.frame_encoding == ENCODING_OMITTED ||
	    encoding_size(head.frame_encoding) != 4 || head.count_encoding != ENCODING_UDATA4 ||
	    head.entry_encoding != (ENCODING_DATA_RELATIVE | ENCODING_SDATA4))
		return -EOPNOTSUPP;
	if (head.n_entries > (table->p_memsz - sizeof(head)) / sizeof(struct unwind_entry))
		return -EBADMSG;
	*ret_address = table->p_vaddr;
	*ret_n = head.n_entries;
	return 0;
}

int elf_unwind_entry(const struct elf_image *image, uint64_t table, uint32_t i,
		     struct unwind_entry *ret)
{
	return read_at(image, table + sizeof(struct table_head) + (uint64_t)i * sizeof(*ret), ret,
		       sizeof(*ret));
}

/* The last entry whose code begins at or before the address; ret_index may be NULL. */
static int search_table(const struct elf_image *image, uint64_t table, uint32_t n_entries,
			uint64_t address, uint32_t *ret_index, struct unwind_entry *ret)
{
	struct unwind_entry entry, best = { 0 };
	uint32_t low = 0, high = n_entries;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		int r = elf_unwind_entry(image, table, middle, &entry);

		if (r < 0)
			return r;
		if (table + (uint64_t)(int64_t)entry.code <= address) {
			best = entry;
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	if (low == 0)
		return -ENOENT;
	if (ret_index)
		*ret_index = low - 1;
	*ret = best;
	return 0;
}

int elf_unwind_search(const struct elf_image *image, uint64_t table, uint32_t n, uint64_t address,
		      uint32_t *ret)
{
	struct unwind_entry ignored;

	return search_table(image, table, n, address, ret, &ignored);
}

/* How the FDEs of a CIE encode their addresses: the 'R' of its augmentation, or as plain words. */
static int read_encoding(const struct elf_image *image, uint64_t address, uint8_t *ret)
{
	uint8_t bytes[CIE_BYTES_MAX];
	const char *augmentation;
	uint64_t offset, room;
	struct cursor cursor;
	size_t length;
	uint32_t head[2];
	int r;

	if (elf_image_locate(image, address, &offset, &room) < 0 || room < sizeof(head))
		return -EBADMSG;
	room = MIN(room, sizeof(bytes));
	r = elf_image_read(image, offset, bytes, room);
	if (r < 0)
		return r;
	memcpy(head, bytes, sizeof(head));
	if (head[0] == 0 || head[1] != 0)
		return -EBADMSG;
	if (head[0] == UINT32_MAX)
		return -EOPNOTSUPP;
	cursor = (struct cursor){ bytes + sizeof(head), bytes + MIN(room, 4 + (uint64_t)head[0]) };
	if (cursor.at >= cursor.end)
		return -EBADMSG;
	if (*cursor.at != 1 && *cursor.at != 3)
		return -EOPNOTSUPP;
	augmentation = (const char *)++cursor.at;
	length = strnlen(augmentation, (size_t)(cursor.end - cursor.at));
	if (length == (size_t)(cursor.end - cursor.at))
		return -EBADMSG;
	cursor.at += length + 1;
	*ret = ENCODING_ABSOLUTE;
	if (augmentation[0] != 'z')
		return length ? -EOPNOTSUPP : 0;
	/* Code and data alignment, the return register (one byte below 128), the augmentation's
	 * length. */
	for (int i = 0; i < 4; i++)
		if (!cursor_skip_leb128(&cursor))
			return -EBADMSG;
	for (size_t i = 1; i < length; i++) {
		if (augmentation[i] == 'S' || augmentation[i] == 'B')
			continue;
		if (cursor.at >= cursor.end)
			return -EBADMSG;
		if (augmentation[i] == 'R') {
			*ret = *cursor.at;
			return 0;
		}
		if (augmentation[i] == 'P') {
			/* The personality routine: its encoding, then a pointer. */
			size_t size = encoding_size(*cursor.at);

			if (!size)
				return -EOPNOTSUPP;
			if ((size_t)(cursor.end - cursor.at) < 1 + size)
				return -EBADMSG;
			cursor.at += 1 + size;
		} else if (augmentation[i] == 'L') {
			cursor.at++;
		} else {
			return -EOPNOTSUPP;
		}
	}
	return 0;
}

/* The code that an FDE describes. */
static int read_fde(const struct elf_image *image, uint64_t address, uint64_t *ret_start,
		    uint64_t *ret_size)
{
	uint8_t pointers[16], encoding;
	uint64_t start, size;
	uint32_t head[2];
	size_t width;
	int r;

	r = read_at(image, address, head, sizeof(head));
	if (r < 0)
		return r;
	if (head[0] == UINT32_MAX)
		return -EOPNOTSUPP;
	/* The second word leads back to the CIE; it is 0 in a CIE itself. */
	if (head[0] == 0 || head[1] == 0 || head[1] > address + 4)
		return -EBADMSG;
	r = read_encoding(image, address + 4 - head[1], &encoding);
	if (r < 0)
		return r;
	width = encoding_size(encoding);
	if (!width || encoding & 0x80 ||
	    (RELATION(encoding) && RELATION(encoding) != ENCODING_PC_RELATIVE))
		return -EOPNOTSUPP;
	if (head[0] < 4 + 2 * width)
		return -EBADMSG;
	r = read_at(image, address + sizeof(head), pointers, 2 * width);
	if (r < 0)
		return r;
	start = encoding_decode(encoding, pointers);
	if (RELATION(encoding) == ENCODING_PC_RELATIVE)
		start += address + sizeof(head);
	size = encoding_decode(encoding, pointers + width);
	*ret_start = start;
	*ret_size = size;
	return 0;
}

int elf_function_bounds(const struct elf_image *image, uint64_t address, uint64_t *ret_start,
			uint64_t *ret_size)
{
	uint64_t start, size, offset, table;
	struct unwind_entry entry;
	uint32_t n_entries;
	int r;

	if (elf_image_code_offset(image, address, &offset) < 0)
		return -ENOENT;
	r = elf_unwind_table(image, &table, &n_entries);
	if (r < 0)
		return r;
	r = search_table(image, table, n_entries, address, NULL, &entry);
	if (r < 0)
		return r;
	r = read_fde(image, table + (uint64_t)(int64_t)entry.fde, &start, &size);
	if (r < 0)
		return r;
	if (start != table + (uint64_t)(int64_t)entry.code || size == 0)
		return -EBADMSG;
	if (address - start >= size)
		return -ENOENT;
	if (elf_image_code_offset(image, start, &offset) < 0 ||
	    !elf_image_is_code(image, offset, size))
		return -EBADMSG;
	*ret_start = start;
	*ret_size = size;
	return 0;
}

int elf_function_at(const struct elf_image *image, uint64_t address, uint64_t *ret_offset,
		    uint64_t *ret_size)
{
	uint64_t start;
	int r = elf_image_code_offset(image, address, ret_offset);

	if (r >= 0)
		r = elf_function_bounds(image, address, &start, ret_size);
	return r < 0 || start == address ? r : -ENOENT;
}
