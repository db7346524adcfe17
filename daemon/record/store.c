#include "daemon/record/store.h"

#include <errno.h>
#include <string.h>

#include "lib/base/macro.h"

#define BLOCK_BYTES (1u << 20)

struct block {
	struct block *next;
	size_t used;
	char bytes[] __attribute__((aligned(8)));
};

struct stream {
	struct block *first, *last;
	uint64_t records;
};

struct store {
	uint64_t bytes, max_bytes, records, refused;
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
	for (unsigned i = 0; i < s->n_streams; i++)
		for (struct block *b = s->streams[i].first, *next; b; b = next) {
			next = b->next;
			free(b);
		}
	free(s);
	return NULL;
}

static size_t size_of_kind(uint8_t kind)
{
	switch (kind) {
	case RECORD_PROBE:
		return sizeof(struct record_probe);
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
		return sizeof(struct record_thread);
	default:
		return 0;
	}
}

/* The size that a record must have: at least that of its kind, and what it says itself where that fits. */
static size_t kept_size(const struct record *r)
{
	size_t least = size_of_kind(r->kind);

	return r->size8 ? MAX((size_t)r->size8 * 8, least) : least;
}

int store_add(struct store *s, unsigned stream, const void *record, size_t size)
{
	struct stream *t = &s->streams[stream];
	const struct record *head = record;
	struct block *b = t->last;
	size_t least;

	if (size < sizeof(*head) || size % 8 || size > BLOCK_BYTES)
		return -EBADMSG;
	least = size_of_kind(head->kind);
	if (!least)
		return 0; /* a kind of a later version */
	if (size != kept_size(head))
		return -EBADMSG;
	if (!b || BLOCK_BYTES - b->used < size) {
		if (s->bytes + BLOCK_BYTES > s->max_bytes) {
			s->refused++;
			return -ENOBUFS;
		}
		b = malloc(sizeof(*b) + BLOCK_BYTES);
		if (!b) {
			s->refused++;
			return -ENOBUFS;
		}
		b->next = NULL;
		b->used = 0;
		*(t->last ? &t->last->next : &t->first) = b;
		t->last = b;
		s->bytes += BLOCK_BYTES;
	}
	memcpy(b->bytes + b->used, record, size);
	b->used += size;
	t->records++;
	s->records++;
	return 0;
}

uint64_t store_records(const struct store *s)
{
	return s->records;
}

uint64_t store_refused(const struct store *s)
{
	return s->refused;
}

/* Reads a stream in order of time: it is nearly sorted, so records move over short distances only. */
static uint64_t sort_stream(const struct stream *t, const struct record **out)
{
	uint64_t n = 0;

	for (const struct block *b = t->first; b; b = b->next)
		for (size_t at = 0; at < b->used;) {
			const struct record *r = (const void *)(b->bytes + at);
			uint64_t i = n;

			for (; i > 0 && out[i - 1]->time > r->time; i--)
				out[i] = out[i - 1];
			out[i] = r;
			n++;
			at += kept_size(r);
		}
	return n;
}

int store_sort(struct store *s, const struct record ***ret, uint64_t *ret_n)
{
	const struct record **all, **part;
	uint64_t *at, *end, n = 0, total = 0;

	all = malloc(MAX(s->records, 1u) * sizeof(all[0]));
	part = malloc(MAX(s->records, 1u) * sizeof(part[0]));
	at = calloc(2 * (size_t)s->n_streams + 1, sizeof(at[0]));
	if (!all || !part || !at) {
		free(all);
		free(part);
		free(at);
		return -ENOMEM;
	}
	end = at + s->n_streams;
	for (unsigned i = 0; i < s->n_streams; i++) {
		at[i] = total;
		total += sort_stream(&s->streams[i], part + total);
		end[i] = total;
	}
	/* Few streams: looking at each head costs less than a heap. */
	while (n < total) {
		unsigned best = 0;
		uint64_t time = UINT64_MAX;

		for (unsigned i = 0; i < s->n_streams; i++)
			if (at[i] < end[i] && part[at[i]]->time < time) {
				best = i;
				time = part[at[i]]->time;
			}
		all[n++] = part[at[best]++];
	}
	free(part);
	free(at);
	*ret = all;
	*ret_n = total;
	return 0;
}
