/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/record/journal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "daemon/record/store.h"
#include "lib/base/macro.h"

#define RECORD_BYTES_MAX (256u << 10)

struct journal_block {
	struct journal_block *next;
	struct journal_budget *budget;
	size_t used;
	uint8_t bytes[JOURNAL_BLOCK_BYTES] __attribute__((aligned(8)));
};

struct journal {
	struct journal_budget *budget;
	struct journal_block *first, *last;
	/* A section of records in the last block; NULL: none. */
	struct journal_section_head *open;
	uint64_t bytes; /* of the file */
	uint64_t n_sections, n_records;
	int error;
};

static size_t padded(size_t size)
{
	return (size + 7) & ~(size_t)7;
}

static int block_add(struct journal *j)
{
	struct journal_budget *budget = j->budget;
	struct journal_block *b;

	if (__atomic_add_fetch(&budget->used_bytes, sizeof(*b), __ATOMIC_RELAXED) >
	    budget->max_bytes) {
		__atomic_sub_fetch(&budget->used_bytes, sizeof(*b), __ATOMIC_RELAXED);
		return -ENOBUFS;
	}
	b = malloc(sizeof(*b));
	if (!b) {
		__atomic_sub_fetch(&budget->used_bytes, sizeof(*b), __ATOMIC_RELAXED);
		return -ENOMEM;
	}
	b->next = NULL;
	b->budget = budget;
	b->used = 0;
	*(j->last ? &j->last->next : &j->first) = b;
	j->last = b;
	return 0;
}

void journal_release(void *owner)
{
	struct journal_block *b = owner;

	__atomic_sub_fetch(&b->budget->used_bytes, sizeof(*b), __ATOMIC_RELAXED);
	free(b);
}

int journal_abandon(struct journal *j, int error)
{
	for (struct journal_block *b = j->first, *next; b; b = next) {
		next = b->next;
		journal_release(b);
	}
	j->first = j->last = NULL;
	j->open = NULL;
	j->error = error;
	return error;
}

struct journal *journal_free(struct journal *j)
{
	if (!j)
		return NULL;
	journal_abandon(j, 0);
	free(j);
	return NULL;
}

/* Adds bytes as they are, over as many blocks as they need. */
static int put(struct journal *j, const void *bytes, size_t size)
{
	const uint8_t *from = bytes;

	while (size && !j->error) {
		size_t room = JOURNAL_BLOCK_BYTES - j->last->used, n = MIN(size, room);
		int r = room ? 0 : block_add(j);

		if (r < 0)
			return journal_abandon(j, r);
		if (!room)
			continue;
		memcpy(j->last->bytes + j->last->used, from, n);
		j->last->used += n;
		j->bytes += n;
		from += n;
		size -= n;
	}
	return j->error;
}

/* It covers the kind and the size, too: everything that follows depends on them. */
static uint32_t checksum(uint32_t kind, uint32_t size, const void *bytes)
{
	const uint32_t head[2] = { kind, size };
	uLong sum = crc32(0, (const Bytef *)head, sizeof(head));

	return (uint32_t)crc32(sum, bytes, size);
}

int journal_new(struct journal_budget *budget, struct journal **ret)
{
	const struct journal_file head = { .magic = JOURNAL_MAGIC,
					   .byte_order = JOURNAL_BYTE_ORDER,
					   .version = JOURNAL_VERSION,
					   .head_size = sizeof(struct record) };
	struct journal *j = calloc(1, sizeof(*j));
	int r;

	if (!j)
		return -ENOMEM;
	j->budget = budget;
	r = block_add(j);
	if (r < 0) {
		journal_free(j);
		return r;
	}
	put(j, &head, sizeof(head));
	*ret = j;
	return 0;
}

static void close_records(struct journal *j)
{
	if (j->open)
		j->open->checksum = checksum(j->open->kind, j->open->size, j->open + 1);
	j->open = NULL;
}

int journal_add(struct journal *j, uint32_t kind, const void *bytes, size_t size)
{
	static const uint8_t zeros[8];
	struct journal_section_head head;

	if (j->error)
		return j->error;
	if (size > UINT32_MAX - 8)
		return journal_abandon(j, -ENOBUFS);
	close_records(j);
	j->n_sections++;
	head = (struct journal_section_head){ .kind = kind,
					      .size = (uint32_t)size,
					      .checksum = checksum(kind, (uint32_t)size, bytes) };
	put(j, &head, sizeof(head));
	put(j, bytes, size);
	return put(j, zeros, padded(size) - size);
}

/* Such a section lies in one block, so that its head can be completed later. */
static int open_records(struct journal *j, uint32_t kind)
{
	const struct journal_section_head head = { .kind = kind };

	/* Blocks are filled in multiples of 8, and the head is one, too. */
	struct journal_section_head *open = (void *)(j->last->bytes + j->last->used);
	int r = put(j, &head, sizeof(head));

	j->open = open;
	j->n_sections++;
	return r;
}

static int add_record(struct journal *j, uint32_t kind, const struct record *record)
{
	size_t size = store_record_size(record);
	int r = 0;

	if (j->error)
		return j->error;
	if (!size || size % 8 || size > RECORD_BYTES_MAX)
		return -EINVAL;
	if (j->open && j->open->kind != kind)
		close_records(j);
	if (JOURNAL_BLOCK_BYTES - j->last->used < size + (j->open ? 0 : sizeof(*j->open))) {
		close_records(j);
		r = block_add(j);
	}
	if (r < 0)
		return journal_abandon(j, r);
	if (!j->open)
		open_records(j, kind);
	j->open->size += (uint32_t)size;
	j->n_records++;
	return put(j, record, size);
}

int journal_add_record(struct journal *j, const struct record *record)
{
	return add_record(j, JOURNAL_RECORDS, record);
}

int journal_add_recalled(struct journal *j, const struct record *record)
{
	return add_record(j, JOURNAL_RECALLED, record);
}

int journal_finish(struct journal *j)
{
	struct journal_end end = { .sections = j->n_sections, .records = j->n_records };

	return journal_add(j, JOURNAL_END, &end, sizeof(end));
}

uint64_t journal_bytes(const struct journal *j)
{
	return j->bytes;
}

bool journal_take(struct journal *j, const void **ret_bytes, size_t *ret_size, void **ret_owner)
{
	struct journal_block *b = j->first;

	if (!b)
		return false;
	j->first = b->next;
	if (!j->first)
		j->last = NULL;
	*ret_bytes = b->bytes;
	*ret_size = b->used;
	*ret_owner = b;
	return true;
}

int journal_bad(struct journal_reader *reader, uint64_t offset, const char *format, ...)
{
	size_t n = sizeof(reader->error);
	va_list ap;

	va_start(ap, format);
	vsnprintf(reader->error, n, format, ap);
	va_end(ap);
	n = strlen(reader->error);
	snprintf(reader->error + n, sizeof(reader->error) - n, " (at byte %llu)",
		 (unsigned long long)offset);
	return -EBADMSG;
}

int journal_open(struct journal_reader *reader)
{
	struct journal_file head = {};

	memcpy(&head, reader->bytes, MIN(reader->size, sizeof(head)));
	if (memcmp(head.magic, JOURNAL_MAGIC, sizeof(head.magic)))
		return journal_bad(
			reader, 0,
			"it is not a recording of tfprofd, or was changed in a transfer (as text, for example)");
	if (reader->size < sizeof(head))
		return journal_bad(reader, reader->size, "it ends too early");
	if (head.byte_order != JOURNAL_BYTE_ORDER) {
		journal_bad(reader, offsetof(struct journal_file, byte_order),
			    "it comes from a machine with another byte order");
		return -EPROTONOSUPPORT;
	}
	if (head.version != JOURNAL_VERSION || head.head_size != sizeof(struct record)) {
		journal_bad(reader, offsetof(struct journal_file, version),
			    "its format is version %u, and this program reads version %u",
			    head.version, JOURNAL_VERSION);
		return -EPROTONOSUPPORT;
	}
	reader->at = sizeof(head);
	return 0;
}

static int read_end(struct journal_reader *reader, const struct journal_section *s)
{
	struct journal_end end;

	if (s->size != sizeof(end))
		return journal_bad(reader, s->offset, "its last section has a wrong size");
	memcpy(&end, s->bytes, sizeof(end));
	if (end.sections != reader->n_sections || end.records != reader->n_records)
		return journal_bad(
			reader, s->offset,
			"its numbers of sections and records do not match its end section");
	if (reader->at != reader->size)
		return journal_bad(reader, reader->at, "something follows its end");
	return 0;
}

int journal_next(struct journal_reader *reader, struct journal_section *ret)
{
	for (;;) {
		size_t at = reader->at, left = reader->size - at;
		struct journal_section_head head;

		if (left < sizeof(head))
			return journal_bad(reader, reader->size, "it ends too early");
		memcpy(&head, reader->bytes + at, sizeof(head));
		left -= sizeof(head);
		if (head.size > left || padded(head.size) > left)
			return journal_bad(reader, at, "it ends within a section of %u bytes",
					   head.size);
		*ret = (struct journal_section){ .kind = head.kind,
						 .bytes = reader->bytes + at + sizeof(head),
						 .size = head.size,
						 .offset = at + sizeof(head) };
		if (head.checksum != checksum(head.kind, head.size, ret->bytes))
			return journal_bad(reader, at, "it is damaged: a checksum is wrong");
		reader->at = at + sizeof(head) + padded(head.size);
		if (head.kind == JOURNAL_END)
			return read_end(reader, ret);
		reader->n_sections++;
		if ((head.kind >= JOURNAL_HEAD && head.kind < JOURNAL_END) ||
		    (head.kind >= JOURNAL_LOSS && head.kind <= JOURNAL_RESUMED) ||
		    (head.kind >= JOURNAL_PLAN && head.kind <= JOURNAL_SYMBOLS))
			return 1;
		if (!(head.kind & JOURNAL_OPTIONAL)) {
			journal_bad(
				reader, at,
				"it holds a section that this version does not know (%u): use a newer tfprofctl",
				head.kind);
			return -EPROTONOSUPPORT;
		}
	}
}

int journal_next_record(struct journal_reader *reader, const struct journal_section *section,
			size_t *at, const struct record **ret, size_t *ret_size)
{
	while (*at < section->size) {
		const struct record *record = (const void *)(section->bytes + *at);
		size_t left = section->size - *at, size;

		if (left < sizeof(*record))
			return journal_bad(reader, section->offset + *at,
					   "it ends within a record");
		*ret_size = store_record_size(record);
		size = *ret_size ?: (size_t)record->size8 * 8;
		if (size < sizeof(*record) || size % 8 || size > RECORD_BYTES_MAX)
			return journal_bad(reader, section->offset + *at,
					   "a record of kind %u has a wrong size", record->kind);
		if (size > left)
			return journal_bad(reader, section->offset + *at,
					   "it ends within a record");
		*at += size;
		reader->n_records++;
		*ret = record;
		if (*ret_size)
			return 1;
	}
	return 0;
}
