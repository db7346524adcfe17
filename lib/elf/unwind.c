/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/elf/unwind.h"

#include <errno.h>
#include <string.h>

#include "lib/base/macro.h"

/* Encodings of pointers (DW_EH_PE_…): the form in the low four bits, the base in the next three. */
#define ENCODING_ABSOLUTE 0x00
#define ENCODING_UDATA4 0x03
#define ENCODING_SDATA4 0x0b
#define ENCODING_SDATA8 0x0c
#define ENCODING_UDATA8 0x04
#define ENCODING_PC_RELATIVE 0x10
#define ENCODING_DATA_RELATIVE 0x30
#define ENCODING_OMITTED 0xff

#define FORM(encoding) ((encoding)&0x0f)
#define RELATION(encoding) ((encoding)&0x70)

/* Of a CIE up to its pointer encoding; real ones take 20 to 30. */
#define CIE_BYTES_MAX 256

/* The head of .eh_frame_hdr as linkers write it: both numbers have four bytes. */
struct table_head {
	uint8_t version, frame_encoding, count_encoding, entry_encoding;
	int32_t frame;
	uint32_t n_entries;
};

/* The start of code, and the place of its FDE, both relative to the table's head. */
struct table_entry {
	int32_t code, fde;
};

/* Bytes of a record that is decoded from its start. */
struct cursor {
	const uint8_t *at, *end;
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

/* The last entry whose code begins at or before the address. */
static int search_table(const struct elf_image *image, const Elf64_Phdr *table, uint32_t n_entries,
			uint64_t address, struct table_entry *ret)
{
	uint64_t first = table->p_vaddr + sizeof(struct table_head);
	struct table_entry entry, best = { 0 };
	uint32_t low = 0, high = n_entries;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		int r = read_at(image, first + (uint64_t)middle * sizeof(entry), &entry,
				sizeof(entry));

		if (r < 0)
			return r;
		if (table->p_vaddr + (uint64_t)(int64_t)entry.code <= address) {
			best = entry;
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	if (low == 0)
		return -ENOENT;
	*ret = best;
	return 0;
}

static bool skip_leb128(struct cursor *cursor)
{
	while (cursor->at < cursor->end)
		if (!(*cursor->at++ & 0x80))
			return true;
	return false;
}

/* The size of a pointer in one of the forms that compilers use; 0: another one. */
static size_t form_size(uint8_t encoding)
{
	switch (FORM(encoding)) {
	case ENCODING_UDATA4:
	case ENCODING_SDATA4:
		return 4;
	case ENCODING_ABSOLUTE:
	case ENCODING_UDATA8:
	case ENCODING_SDATA8:
		return 8;
	default:
		return 0;
	}
}

static uint64_t decode(uint8_t encoding, const uint8_t *data)
{
	uint64_t wide;
	uint32_t word;

	if (form_size(encoding) == 8) {
		memcpy(&wide, data, sizeof(wide));
		return wide;
	}
	memcpy(&word, data, sizeof(word));
	return FORM(encoding) == ENCODING_SDATA4 ? (uint64_t)(int64_t)(int32_t)word : word;
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
		if (!skip_leb128(&cursor))
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
			size_t size = form_size(*cursor.at);

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
	width = form_size(encoding);
	if (!width || encoding & 0x80 ||
	    (RELATION(encoding) && RELATION(encoding) != ENCODING_PC_RELATIVE))
		return -EOPNOTSUPP;
	if (head[0] < 4 + 2 * width)
		return -EBADMSG;
	r = read_at(image, address + sizeof(head), pointers, 2 * width);
	if (r < 0)
		return r;
	start = decode(encoding, pointers);
	if (RELATION(encoding) == ENCODING_PC_RELATIVE)
		start += address + sizeof(head);
	size = decode(encoding, pointers + width);
	*ret_start = start;
	*ret_size = size;
	return 0;
}

int elf_function_bounds(const struct elf_image *image, uint64_t address, uint64_t *ret_start,
			uint64_t *ret_size)
{
	const Elf64_Phdr *table = find_table(image);
	uint64_t start, size, offset;
	struct table_entry entry;
	struct table_head head;
	int r;

	if (!table || elf_image_code_offset(image, address, &offset) < 0)
		return -ENOENT;
	if (table->p_memsz < sizeof(head))
		return -EBADMSG;
	r = read_at(image, table->p_vaddr, &head, sizeof(head));
	if (r < 0)
		return r;
	if (head.version != 1 || head.frame_encoding == ENCODING_OMITTED ||
	    form_size(head.frame_encoding) != 4 || head.count_encoding != ENCODING_UDATA4 ||
	    head.entry_encoding != (ENCODING_DATA_RELATIVE | ENCODING_SDATA4))
		return -EOPNOTSUPP;
	if (head.n_entries > (table->p_memsz - sizeof(head)) / sizeof(entry))
		return -EBADMSG;
	r = search_table(image, table, head.n_entries, address, &entry);
	if (r < 0)
		return r;
	r = read_fde(image, table->p_vaddr + (uint64_t)(int64_t)entry.fde, &start, &size);
	if (r < 0)
		return r;
	if (start != table->p_vaddr + (uint64_t)(int64_t)entry.code || size == 0)
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
