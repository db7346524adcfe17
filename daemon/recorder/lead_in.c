/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/recorder/lead_in.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/correlate.h"
#include "daemon/record/store.h"
#include "lib/base/array.h"
#include "lib/base/macro.h"
#include "lib/base/map.h"

struct lead_in {
	uint64_t max_bytes;
	const struct pack_set *sets[RECORD_MAX_TARGETS];
	unsigned n_targets;
	/* Records that later ones may refer to, in order of time; some are superseded by later
	 * ones. */
	uint8_t *bytes;
	size_t used, allocated, used_after_last;
	bool is_cut;
};

/* What a record states, and until when: until a record with the same subject arrives, or its socket
 * is closed. */
struct statement {
	uint64_t subject; /* 0: nothing that is kept */
	uint64_t socket;  /* 0: of no socket */
	uint32_t inode;
	/* It only ends an earlier statement. */
	bool ends;
	/* A direction of a socket whose fields are all forgotten, 0: none. */
	uint64_t ends_fields;
	uint64_t field_of; /* for a field: its direction */
};

enum subject {
	SUBJECT_OBJECT = 1,
	SUBJECT_FIELD,
	SUBJECT_PREFACE,
	SUBJECT_PASSED,
	SUBJECT_FOREIGN,
	SUBJECT_UNSEEN,
	SUBJECT_ENCRYPTED,
	SUBJECT_EXEC,
	SUBJECT_FIELDS,
	SUBJECT_QUOTA
};

/* Never 0, and never the key that no map accepts. */
static uint64_t mix(enum subject subject, uint64_t a, uint64_t b)
{
	uint64_t x = ((a * 0x9e3779b97f4a7c15) ^ (b + subject)) * 0xbf58476d1ce4e5b9;

	x = (x ^ x >> 31) * 0x94d049bb133111eb;
	x ^= x >> 29;
	return x == UINT64_MAX ? 1 : MAX(x, UINT64_C(1));
}

int lead_in_new(uint64_t max_bytes, struct lead_in **ret)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	(*ret)->max_bytes = max_bytes;
	return 0;
}

struct lead_in *lead_in_free(struct lead_in *l)
{
	if (l)
		free(l->bytes);
	free(l);
	return NULL;
}

int lead_in_add_target(struct lead_in *l, const struct pack_set *set)
{
	if (l->n_targets == RECORD_MAX_TARGETS)
		return -E2BIG;
	l->sets[l->n_targets++] = set;
	return 0;
}

bool lead_in_is_incomplete(const struct lead_in *l)
{
	return l->is_cut;
}

uint64_t lead_in_bytes(const struct lead_in *l)
{
	return l->allocated;
}

static bool frees_object(const struct lead_in *l, const struct record *r)
{
	const struct probe_row *row =
		r->target < l->n_targets ? pack_set_row(l->sets[r->target], r->site) : NULL;

	return row && row_is(row, VERB_FREE, WORK_OP);
}

static struct statement read_message(const struct record_message *m)
{
	struct statement s = { .socket = m->socket + 1, .inode = m->inode };

	if (m->part & MESSAGE_NO_FIELDS)
		s.ends_fields = mix(SUBJECT_FIELDS, m->socket, m->direction);
	if (m->part & MESSAGE_CLOSED) {
		s.ends = true;
		return s;
	}
	if (m->protocol == MESSAGE_HTTP2 && m->part & MESSAGE_PREFACE)
		s.subject = mix(SUBJECT_PREFACE, m->socket, m->direction);
	else if (m->part & MESSAGE_PASSED)
		s.subject = mix(SUBJECT_PASSED, m->socket, m->direction);
	return s;
}

static struct statement read_field(const struct record_field *f)
{
	struct statement s = { .socket = f->socket + 1, .inode = f->inode };

	if (!f->inserted)
		return s;
	s.subject = mix(SUBJECT_FIELD, f->socket,
			(uint64_t)f->direction << 32 | f->number % HTTP2_FIELDS_KEPT);
	s.field_of = mix(SUBJECT_FIELDS, f->socket, f->direction);
	return s;
}

/* Encrypted connections are counted; of others it matters that there are any. */
static struct statement read_unseen(const struct record_unseen *r)
{
	if (r->head.site != UNSEEN_TLS)
		return (struct statement){ .subject = mix(SUBJECT_UNSEEN, r->head.site,
							  r->head.target) };
	return (struct statement){ .subject = mix(SUBJECT_ENCRYPTED, r->socket, r->head.target),
				   .socket = r->socket + 1,
				   .inode = r->inode };
}

static struct statement read_statement(const struct lead_in *l, const struct record *r)
{
	struct statement s = {};

	switch (r->kind) {
	case RECORD_NAME:
		s.subject = mix(SUBJECT_OBJECT,
				((const struct record_name *)(const void *)r)->object, r->target);
		break;
	case RECORD_OBJECT:
		s.subject = mix(SUBJECT_OBJECT,
				((const struct record_object *)(const void *)r)->object, r->target);
		break;
	case RECORD_PROBE:
		s.ends = frees_object(l, r);
		if (s.ends)
			s.subject = mix(SUBJECT_OBJECT,
					((const struct record_probe *)(const void *)r)->value,
					r->target);
		break;
	case RECORD_FOREIGN:
		s.subject = mix(SUBJECT_FOREIGN, r->tid, 0);
		break;
	case RECORD_EXEC:
		s.subject = mix(SUBJECT_EXEC, r->tid, 0);
		break;
	case RECORD_UNSEEN:
		s = read_unseen((const void *)r);
		break;
	case RECORD_QUOTA:
		s.subject = mix(SUBJECT_QUOTA,
				((const struct record_quota *)(const void *)r)->cgroup, 0);
		break;
	case RECORD_MESSAGE:
		return read_message((const void *)r);
	case RECORD_FIELD:
		return read_field((const void *)r);
	default:
		break;
	}
	return s;
}

/* What later records state about the subjects, while records are read backwards. */
struct backwards {
	struct map stated; /* subjects */
	struct map fields; /* directions whose fields were forgotten */
	/* The inode + 1 of its later owner; 0: it was closed. */
	struct map sockets;
};

/* Whether the statement still holds at the end; -ENOMEM. */
static int is_still_valid(struct backwards *b, const struct statement *s)
{
	uint64_t *later = s->socket ? map_get(&b->sockets, s->socket) : NULL;
	bool is_gone = later && *later != s->inode + UINT64_C(1);
	int r = 0;

	if (s->socket && !later)
		r = map_put(&b->sockets, s->socket, s->ends ? 0 : s->inode + UINT64_C(1));
	if (r == 0 && s->ends_fields)
		r = map_put(&b->fields, s->ends_fields, 1);
	if (r < 0 || !s->subject || is_gone || (s->field_of && map_get(&b->fields, s->field_of)) ||
	    map_get(&b->stated, s->subject))
		return MIN(r, 0);
	r = map_put(&b->stated, s->subject, 1);
	return r < 0 ? r : !s->ends;
}

/* Finds where each record begins; the caller frees the offsets. */
static int find_records(const struct lead_in *l, uint32_t **ret, size_t *ret_n)
{
	size_t n = 0, allocated = 0;
	uint32_t *starts = NULL;

	for (size_t at = 0; at < l->used;) {
		if (array_reserve(&starts, n, &allocated, sizeof(*starts), 1) < 0) {
			free(starts);
			return -ENOMEM;
		}
		starts[n++] = (uint32_t)at;
		at += store_record_size((const void *)(l->bytes + at));
	}
	*ret = starts;
	*ret_n = n;
	return 0;
}

/* Moves the kept records together. */
static void close_gaps(struct lead_in *l, const uint32_t *starts, size_t n, const bool *keeps)
{
	size_t used = 0, dropped = 0, kept = 0;

	for (size_t i = 0; i < n; i++)
		if (keeps[i])
			kept += store_record_size((const void *)(l->bytes + starts[i]));
	for (size_t i = 0; i < n; i++) {
		size_t size = store_record_size((const void *)(l->bytes + starts[i]));

		if (!keeps[i])
			continue;
		/* The oldest are dropped if there is too much. */
		if (kept - dropped > l->max_bytes) {
			dropped += size;
			l->is_cut = true;
			continue;
		}
		memmove(l->bytes + used, l->bytes + starts[i], size);
		used += size;
	}
	l->used = l->used_after_last = used;
}

static int drop_superseded(struct lead_in *l)
{
	_cleanup_free_ uint32_t *starts = NULL;
	_cleanup_free_ bool *keeps = NULL;
	struct backwards b = {};
	size_t n = 0;
	int r = find_records(l, &starts, &n);

	if (r == 0 && n) {
		keeps = calloc(n, sizeof(*keeps));
		r = keeps ? 0 : -ENOMEM;
	}
	for (size_t i = n; i > 0 && r >= 0; i--) {
		struct statement s = read_statement(l, (const void *)(l->bytes + starts[i - 1]));

		r = is_still_valid(&b, &s);
		if (r >= 0)
			keeps[i - 1] = r;
	}
	if (r >= 0)
		close_gaps(l, starts, n, keeps);
	map_done(&b.stated);
	map_done(&b.fields);
	map_done(&b.sockets);
	return MIN(r, 0);
}

int lead_in_add(struct lead_in *l, const struct record *record)
{
	struct statement s = read_statement(l, record);
	size_t size = store_record_size(record);

	if (!s.subject && !s.ends && !s.ends_fields)
		return 0;
	/* As many bytes as are kept may be superseded before the next cleanup. */
	if (l->used + size > l->used_after_last + l->max_bytes) {
		int r = drop_superseded(l);

		if (r < 0)
			return r;
	}
	if (l->used + size > l->allocated) {
		size_t allocated =
			MAX(l->used + size, MIN((size_t)l->max_bytes * 2, (l->used + size) * 2));
		uint8_t *bytes = realloc(l->bytes, allocated);

		if (!bytes)
			return -ENOMEM;
		l->bytes = bytes;
		l->allocated = allocated;
	}
	memcpy(l->bytes + l->used, record, size);
	l->used += size;
	return 0;
}

int lead_in_copy(const struct lead_in *l, struct lead_in **ret)
{
	struct lead_in *copy = malloc(sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	*copy = *l;
	copy->allocated = l->used;
	copy->bytes = malloc(MAX(l->used, (size_t)1));
	if (!copy->bytes) {
		free(copy);
		return -ENOMEM;
	}
	if (l->used)
		memcpy(copy->bytes, l->bytes, l->used);
	*ret = copy;
	return 0;
}

int lead_in_read(struct lead_in *l, lead_in_fn fn, void *data)
{
	int r = drop_superseded(l);

	for (size_t at = 0; at < l->used && r >= 0;) {
		const struct record *record = (const void *)(l->bytes + at);

		r = fn(record, data);
		at += store_record_size(record);
	}
	return r;
}

/* The numbers that HTTP/1 messages of a connection had before the first ones of the window. */
struct base {
	uint32_t inode;
	bool is_known[2]; /* by enum message_direction */
	uint32_t before[2];
};

struct rebase {
	struct map base_of; /* of sockets */
	struct base *bases;
	uint32_t n;
	size_t allocated;
};

int rebase_new(struct rebase **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct rebase *rebase_free(struct rebase *rebase)
{
	if (!rebase)
		return NULL;
	map_done(&rebase->base_of);
	free(rebase->bases);
	free(rebase);
	return NULL;
}

static struct base *base_get(struct rebase *rebase, const struct record_message *m)
{
	uint64_t key = m->socket == UINT64_MAX ? 0 : m->socket,
		 *found = map_get(&rebase->base_of, key);
	struct base *base;

	if (found) {
		base = &rebase->bases[*found];
		if (base->inode != m->inode)
			*base = (struct base){ .inode = m->inode };
		return base;
	}
	if (array_reserve(&rebase->bases, rebase->n, &rebase->allocated, sizeof(*base), 1) < 0)
		return NULL;
	if (map_put(&rebase->base_of, key, rebase->n) < 0)
		return NULL;
	base = &rebase->bases[rebase->n++];
	*base = (struct base){ .inode = m->inode };
	return base;
}

const struct record *rebase_record(struct rebase *rebase, const struct record *record,
				   struct record_headers *copy)
{
	const struct record_message *m = (const void *)record;
	unsigned direction;
	struct base *base;

	if (record->kind != RECORD_MESSAGE ||
	    (m->protocol != MESSAGE_HTTP1 && !(m->part & (MESSAGE_LOST | MESSAGE_CLOSED))))
		return record;
	base = base_get(rebase, m);
	if (!base)
		return NULL;
	direction = m->direction & 1;
	if (m->protocol != MESSAGE_HTTP1 || m->part & MESSAGE_LOST) {
		base->is_known[direction] = false;
		return record;
	}
	if (!base->is_known[direction])
		/* A message that continues from before the window is not counted. */
		base->before[direction] = m->part & MESSAGE_FIRST ? m->ordinal - 1 : m->ordinal;
	/* After a loss, and after the end, the programs start to count again. */
	base->is_known[direction] = !(m->part & MESSAGE_CLOSED);
	*copy = (struct record_headers){};
	memcpy(copy, record, MIN(store_record_size(record), sizeof(*copy)));
	copy->message.ordinal -= base->before[direction];
	return &copy->message.head;
}
