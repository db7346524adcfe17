/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/record/store.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/macro.h"

#define BLOCK_BYTES (256u << 10)

struct block {
	struct block *next;
	size_t used;
	/* Records that were not passed on yet. */
	uint64_t kept;
	char bytes[] __attribute__((aligned(8)));
};

struct entry {
	const struct record *record;
	struct block *block;
};

struct stream {
	struct block *first, *last;
	struct entry *entries; /* in order of time */
	size_t from, n, size;  /* those from .from to .n are kept */
};

struct store {
	uint64_t bytes, max_bytes;
	unsigned n_streams;
	struct stream streams[];
};

int store_new(unsigned n_streams, uint64_t max_bytes, struct store **ret)
{
	struct store *s = calloc(1, sizeof(*s) + n_streams * sizeof(s->streams[0]));

	if (!s)
		return -ENOMEM;
	s->n_streams = n_streams;
	s->max_bytes = max_bytes;
	*ret = s;
	return 0;
}

struct store *store_free(struct store *s)
{
	if (!s)
		return NULL;
	for (unsigned i = 0; i < s->n_streams; i++) {
		for (struct block *b = s->streams[i].first, *next; b; b = next) {
			next = b->next;
			free(b);
		}
		free(s->streams[i].entries);
	}
	free(s);
	return NULL;
}

static size_t size_of_kind(uint8_t kind)
{
	switch (kind) {
	case RECORD_PROBE:
		return sizeof(struct record_probe);
	case RECORD_TEXT:
		return sizeof(struct record_text);
	case RECORD_NAME:
		return sizeof(struct record_name);
	case RECORD_OBJECT:
		return sizeof(struct record_object);
	case RECORD_SWITCH:
		return sizeof(struct record_switch);
	case RECORD_WAKE:
		return sizeof(struct record_wake);
	case RECORD_THREAD:
	case RECORD_EXIT:
	case RECORD_EXEC:
	case RECORD_FORK:
	case RECORD_FOREIGN:
		return sizeof(struct record_thread);
	case RECORD_MESSAGE:
		return sizeof(struct record_message);
	case RECORD_FIELD:
		return sizeof(struct record_field);
	case RECORD_READY:
		return sizeof(struct record_ready);
	case RECORD_ACCEPTED:
		return sizeof(struct record_accepted);
	case RECORD_UNSEEN:
		return sizeof(struct record_unseen);
	case RECORD_QUOTA:
		return sizeof(struct record_quota);
	case RECORD_DEPARTURE:
		return sizeof(struct record_departure);
	case RECORD_STACK:
		return sizeof(struct record_stack);
	case RECORD_KERNEL_NAME:
		return sizeof(struct record_kernel_name);
	case RECORD_SCRIPT:
		return sizeof(struct record_script);
	default:
		return 0;
	}
}

/* The size that a record must have: at least that of its kind, and its own size field if that is
 * plausible. */
static size_t kept_size(const struct record *r)
{
	size_t least = size_of_kind(r->kind);

	return r->size8 ? MAX((size_t)r->size8 * 8, least) : least;
}

size_t store_record_size(const struct record *record)
{
	return size_of_kind(record->kind) ? kept_size(record) : 0;
}

/* The block for a record of this size; NULL: no room. */
static struct block *block_get(struct store *s, struct stream *t, size_t size)
{
	struct block *b = t->last;

	if (b && BLOCK_BYTES - b->used >= size)
		return b;
	if (s->bytes + BLOCK_BYTES > s->max_bytes)
		return NULL;
	b = malloc(sizeof(*b) + BLOCK_BYTES);
	if (!b)
		return NULL;
	*b = (struct block){};
	*(t->last ? &t->last->next : &t->first) = b;
	t->last = b;
	s->bytes += BLOCK_BYTES;
	return b;
}

static int entries_reserve(struct stream *t)
{
	if (t->n < t->size)
		return 0;
	/* The room of records that were passed on is reused before more is allocated. */
	if (t->from > t->size / 2) {
		memmove(t->entries, t->entries + t->from, (t->n - t->from) * sizeof(t->entries[0]));
		t->n -= t->from;
		t->from = 0;
		return 0;
	}
	return array_reserve(&t->entries, t->n, &t->size, sizeof(t->entries[0]), 1);
}

/* For records of the same time the thread id decides, so that the order does not depend on the
 * rings. Records of one thread stay in order. */
static bool goes_before(const struct record *a, const struct record *b)
{
	return a->time != b->time ? a->time < b->time : a->tid < b->tid;
}

int store_add(struct store *s, unsigned stream, const void *record, size_t size)
{
	struct stream *t = &s->streams[stream];
	const struct record *head = record;
	struct block *b;
	size_t at;

	if (size < sizeof(*head) || size % 8 || size > BLOCK_BYTES)
		return -EBADMSG;
	if (!size_of_kind(head->kind))
		return 0; /* a kind of a later version */
	if (size != kept_size(head))
		return -EBADMSG;
	b = block_get(s, t, size);
	if (!b || entries_reserve(t) < 0)
		return -ENOBUFS;
	memcpy(b->bytes + b->used, record, size);
	/* A stream is nearly in order: records move over short distances only. */
	for (at = t->n++; at > t->from && goes_before(head, t->entries[at - 1].record); at--)
		t->entries[at] = t->entries[at - 1];
	t->entries[at] = (struct entry){ .record = (const void *)(b->bytes + b->used), .block = b };
	b->used += size;
	b->kept++;
	return 0;
}

/* Frees the blocks whose records were all passed on; the last one receives more. */
static void blocks_free(struct store *s, struct stream *t)
{
	while (t->first && t->first != t->last && !t->first->kept) {
		struct block *b = t->first;

		t->first = b->next;
		free(b);
		s->bytes -= BLOCK_BYTES;
	}
}

int store_take(struct store *s, uint64_t before, store_fn fn, void *data)
{
	int r = 0;

	while (r >= 0) {
		struct stream *best = NULL;

		/* There are few streams: looking at each head costs less than a heap. */
		for (unsigned i = 0; i < s->n_streams; i++) {
			struct stream *t = &s->streams[i];

			if (t->from < t->n && t->entries[t->from].record->time < before &&
			    (!best || goes_before(t->entries[t->from].record,
						  best->entries[best->from].record)))
				best = t;
		}
		if (!best)
			break;
		r = fn(best->entries[best->from].record, data);
		if (r >= 0)
			best->entries[best->from++].block->kept--;
	}
	for (unsigned i = 0; i < s->n_streams; i++)
		blocks_free(s, &s->streams[i]);
	return r < 0 ? r : 0;
}

uint64_t store_bytes(const struct store *s)
{
	return s->bytes;
}
