/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/xspace/xspace.h"

#include <errno.h>
#include <string.h>

#include "daemon/export/xspace/name_table.h"
#include "daemon/export/xspace/wire.h"
#include "lib/base/array.h"
#include "lib/base/macro.h"

enum {
	SPACE_PLANE = WIRE_BYTES(1),
	SPACE_ERROR = WIRE_BYTES(2),
	SPACE_WARNING = WIRE_BYTES(3),
	SPACE_HOSTNAME = WIRE_BYTES(4),

	PLANE_ID = WIRE_VARINT(1),
	PLANE_NAME = WIRE_BYTES(2),
	PLANE_LINE = WIRE_BYTES(3),
	PLANE_EVENT_METADATA = WIRE_BYTES(4),
	PLANE_STAT_METADATA = WIRE_BYTES(5),
	PLANE_STAT = WIRE_BYTES(6),

	LINE_ID = WIRE_VARINT(1),
	LINE_NAME = WIRE_BYTES(2),
	LINE_TIMESTAMP = WIRE_VARINT(3),
	LINE_EVENT = WIRE_BYTES(4),
	LINE_DISPLAY_ID = WIRE_VARINT(10),
	LINE_DISPLAY_NAME = WIRE_BYTES(11),

	EVENT_METADATA_ID = WIRE_VARINT(1),
	EVENT_OFFSET = WIRE_VARINT(2),
	EVENT_DURATION = WIRE_VARINT(3),
	EVENT_STAT = WIRE_BYTES(4),

	STAT_METADATA_ID = WIRE_VARINT(1),
	STAT_UINT64 = WIRE_VARINT(3),
	STAT_INT64 = WIRE_VARINT(4),
	STAT_BYTES_VALUE = WIRE_BYTES(6),
	STAT_REF = WIRE_VARINT(7),
};

#define PREFIX_MAX 6 /* a tag and a length below 2^35 */
/* A stat's length takes one byte, an event's two at most. */
#define STAT_MAX (2 + 2 * WIRE_NUMBER_MAX)
#define EVENT_MAX (3 + 3 * WIRE_NUMBER_MAX + XSPACE_EVENT_STATS_MAX * STAT_MAX)
#define BLOCK_SIZE (UINT64_C(1) << 20)

/* Memory for encoded bytes. */
struct block {
	struct block *next;
	uint8_t data[];
};

/* A message whose length is known only at its end. */
struct frame {
	uint8_t *prefix; /* PREFIX_MAX bytes, of which the last ones will be used */
	size_t segment;
	uint64_t start; /* size of the whole message where this one begins */
};

enum depth { DEPTH_SPACE, DEPTH_PLANE, DEPTH_LINE, DEPTH_FINISHED };

struct xspace {
	uint64_t max_bytes;
	uint64_t size;
	uint64_t n_events;
	int error;
	enum depth depth;
	struct frame plane, line;
	struct name_table event_names, stat_names;

	struct block *blocks;
	uint8_t *position, *limit; /* the free part of the newest block */
	uint8_t *segment;          /* [segment, position) is encoded but not yet in segments */
	struct iovec *segments;
	size_t n_segments, segments_allocated;
};

static int fail(struct xspace *x, int error)
{
	return x->error = error;
}

static int check_depth(struct xspace *x, enum depth depth)
{
	if (x->error)
		return x->error;
	return x->depth == depth ? 0 : fail(x, -EINVAL);
}

static int segment_push(struct xspace *x, uint8_t *data, size_t size)
{
	int r = array_reserve(&x->segments, x->n_segments, &x->segments_allocated,
			      sizeof(*x->segments), 1);

	if (r < 0)
		return fail(x, r);
	x->segments[x->n_segments++] = (struct iovec){ .iov_base = data, .iov_len = size };
	return 0;
}

static int segment_close(struct xspace *x)
{
	int r = 0;

	if (x->position != x->segment)
		r = segment_push(x, x->segment, (size_t)(x->position - x->segment));
	x->segment = x->position;
	return r;
}

/* Makes sure that size bytes can be written at x->position. */
static int reserve(struct xspace *x, size_t size)
{
	size_t block_size = MAX(BLOCK_SIZE - sizeof(struct block), size);
	struct block *block;
	int r;

	if ((size_t)(x->limit - x->position) >= size)
		return 0;
	r = segment_close(x);
	if (r < 0)
		return r;
	block = malloc(sizeof(*block) + block_size);
	if (!block)
		return fail(x, -ENOMEM);
	block->next = x->blocks;
	x->blocks = block;
	x->segment = x->position = block->data;
	x->limit = block->data + block_size;
	return 0;
}

/* Makes the bytes from x->position to end part of the message. */
static inline int commit(struct xspace *x, uint8_t *end)
{
	x->size += (uint64_t)(end - x->position);
	x->position = end;
	return x->size > x->max_bytes ? fail(x, -EFBIG) : 0;
}

static int frame_begin(struct xspace *x, struct frame *frame)
{
	int r = reserve(x, PREFIX_MAX);

	if (r < 0)
		return r;
	r = segment_close(x);
	if (r < 0)
		return r;
	*frame =
		(struct frame){ .prefix = x->position, .segment = x->n_segments, .start = x->size };
	x->segment = x->position += PREFIX_MAX;
	return segment_push(x, frame->prefix, 0);
}

static int frame_end(struct xspace *x, const struct frame *frame, uint8_t tag)
{
	uint64_t length = x->size - frame->start;
	size_t size = 1 + wire_varint_size(length);
	uint8_t *p = frame->prefix + PREFIX_MAX - size;

	wire_put_number(p, tag, length);
	x->segments[frame->segment] = (struct iovec){ .iov_base = p, .iov_len = size };
	x->size += size;
	return x->size > x->max_bytes ? fail(x, -EFBIG) : 0;
}

static int append_text(struct xspace *x, uint8_t tag, const char *text)
{
	size_t length = strlen(text);
	int r;

	if (length > x->max_bytes - x->size)
		return fail(x, -EFBIG);
	r = reserve(x, wire_bytes_size(length));
	return r < 0 ? r : commit(x, wire_put_text(x->position, tag, text, length));
}

static int intern(struct xspace *x, struct name_table *table, uint8_t tag,
		  const struct name_entry *entry, uint32_t *ret)
{
	uint64_t used = x->size + x->event_names.size + x->stat_names.size;
	int r;

	if (x->error)
		return x->error;
	if (x->depth != DEPTH_PLANE && x->depth != DEPTH_LINE)
		return fail(x, -EINVAL);
	r = name_table_intern(table, tag, used < x->max_bytes ? x->max_bytes - used : 0, entry,
			      ret);
	return r < 0 ? fail(x, r) : 0;
}

/* Appends the table to the message and empties it for the next plane. */
static int table_flush(struct xspace *x, struct name_table *table)
{
	int r = reserve(x, table->size);

	if (r < 0)
		return r;
	if (table->size)
		memcpy(x->position, table->bytes, table->size);
	r = commit(x, x->position + table->size);
	name_table_clear(table);
	return r;
}

static void blocks_free(struct block *block)
{
	while (block) {
		struct block *next = block->next;

		free(block);
		block = next;
	}
}

int xspace_new(uint64_t max_bytes, struct xspace **ret)
{
	struct xspace *x = calloc(1, sizeof(*x));

	if (!x)
		return -ENOMEM;
	x->max_bytes = max_bytes && max_bytes < XSPACE_SIZE_MAX ? max_bytes : XSPACE_SIZE_MAX;
	*ret = x;
	return 0;
}

struct xspace *xspace_free(struct xspace *x)
{
	if (!x)
		return NULL;
	blocks_free(x->blocks);
	free(x->segments);
	name_table_done(&x->event_names);
	name_table_done(&x->stat_names);
	free(x);
	return NULL;
}

int xspace_plane_begin(struct xspace *x, int64_t id, const char *name)
{
	int r = check_depth(x, DEPTH_SPACE);

	if (r < 0)
		return r;
	r = frame_begin(x, &x->plane);
	if (r < 0)
		return r;
	r = reserve(x, WIRE_NUMBER_MAX);
	if (r < 0)
		return r;
	x->depth = DEPTH_PLANE;
	r = commit(x, wire_put_number(x->position, PLANE_ID, (uint64_t)id));
	return r < 0 ? r : append_text(x, PLANE_NAME, name);
}

static inline uint8_t *put_stat(uint8_t *p, uint8_t tag, const struct xspace_stat *stat)
{
	static const uint8_t value_tags[] = { [XSPACE_INT64] = STAT_INT64,
					      [XSPACE_UINT64] = STAT_UINT64,
					      [XSPACE_STRING] = STAT_REF };
	uint8_t *length = p + 1;

	*p = tag;
	p = wire_put_number(p + 2, STAT_METADATA_ID, stat->name);
	p = wire_put_number(p, value_tags[stat->type], stat->value);
	*length = (uint8_t)(p - length - 1);
	return p;
}

int xspace_plane_stat(struct xspace *x, const struct xspace_stat *stat)
{
	int r = check_depth(x, DEPTH_PLANE);

	if (r < 0)
		return r;
	r = reserve(x, STAT_MAX);
	return r < 0 ? r : commit(x, put_stat(x->position, PLANE_STAT, stat));
}

int xspace_plane_end(struct xspace *x)
{
	int r = check_depth(x, DEPTH_PLANE);

	if (r < 0)
		return r;
	r = table_flush(x, &x->event_names);
	if (r < 0)
		return r;
	r = table_flush(x, &x->stat_names);
	if (r < 0)
		return r;
	x->depth = DEPTH_SPACE;
	return frame_end(x, &x->plane, SPACE_PLANE);
}

int xspace_line_begin(struct xspace *x, const struct xspace_line *line)
{
	uint8_t *p;
	int r = check_depth(x, DEPTH_PLANE);

	if (r < 0)
		return r;
	r = frame_begin(x, &x->line);
	if (r < 0)
		return r;
	r = reserve(x, 3 * WIRE_NUMBER_MAX);
	if (r < 0)
		return r;
	x->depth = DEPTH_LINE;
	p = wire_put_number(x->position, LINE_ID, (uint64_t)line->id);
	p = wire_put_number(p, LINE_TIMESTAMP, (uint64_t)line->timestamp_ns);
	if (line->display_id)
		p = wire_put_number(p, LINE_DISPLAY_ID, (uint64_t)line->display_id);
	r = commit(x, p);
	if (r < 0)
		return r;
	r = append_text(x, LINE_NAME, line->name);
	return r < 0 || !line->display_name ? r
					    : append_text(x, LINE_DISPLAY_NAME, line->display_name);
}

int xspace_line_end(struct xspace *x)
{
	int r = check_depth(x, DEPTH_LINE);

	if (r < 0)
		return r;
	x->depth = DEPTH_PLANE;
	return frame_end(x, &x->line, PLANE_LINE);
}

int xspace_event_name(struct xspace *x, const char *name, const char *display, uint32_t *ret)
{
	return intern(x, &x->event_names, PLANE_EVENT_METADATA,
		      &(struct name_entry){ .name = name, .display = display }, ret);
}

int xspace_stat_name(struct xspace *x, const char *name, uint32_t *ret)
{
	return intern(x, &x->stat_names, PLANE_STAT_METADATA, &(struct name_entry){ .name = name },
		      ret);
}

int xspace_event_kind(struct xspace *x, const char *name, const struct xspace_stat *stats,
		      unsigned int n_stats, uint32_t *ret)
{
	uint8_t bytes[XSPACE_KIND_STATS_MAX * STAT_MAX], *p = bytes;

	if (n_stats > XSPACE_KIND_STATS_MAX)
		return x->error ? x->error : fail(x, -EINVAL);
	for (unsigned int i = 0; i < n_stats; i++)
		p = put_stat(p, METADATA_STAT, &stats[i]);
	return intern(x, &x->event_names, PLANE_EVENT_METADATA,
		      &(struct name_entry){
			      .name = name, .rest = bytes, .rest_size = (size_t)(p - bytes) },
		      ret);
}

int xspace_event_bytes(struct xspace *x, uint64_t id, const char *name, uint32_t stat_name,
		       const void *bytes, size_t size)
{
	size_t name_size = strlen(name), stat_size, value_size, entry_size;
	uint8_t *p;
	int r = check_depth(x, DEPTH_PLANE);

	if (r < 0)
		return r;
	if (size > x->max_bytes || name_size > x->max_bytes)
		return fail(x, -EFBIG);
	stat_size = 1 + wire_varint_size(stat_name) + wire_bytes_size(size);
	value_size =
		1 + wire_varint_size(id) + wire_bytes_size(name_size) + wire_bytes_size(stat_size);
	entry_size = 1 + wire_varint_size(id) + wire_bytes_size(value_size);
	r = reserve(x, wire_bytes_size(entry_size));
	if (r < 0)
		return r;
	p = wire_put_number(x->position, PLANE_EVENT_METADATA, entry_size);
	p = wire_put_number(p, ENTRY_KEY, id);
	p = wire_put_number(p, ENTRY_VALUE, value_size);
	p = wire_put_number(p, METADATA_ID, id);
	p = wire_put_text(p, METADATA_NAME, name, name_size);
	p = wire_put_number(p, METADATA_STAT, stat_size);
	p = wire_put_number(p, STAT_METADATA_ID, stat_name);
	p = wire_put_number(p, STAT_BYTES_VALUE, size);
	memcpy(p, bytes, size);
	return commit(x, p + size);
}

int xspace_event(struct xspace *x, uint32_t name, uint64_t offset_ps, uint64_t duration_ps,
		 const struct xspace_stat *stats, unsigned int n_stats)
{
	uint8_t *body, *p;
	size_t length;
	int r = check_depth(x, DEPTH_LINE);

	if (r < 0)
		return r;
	if (n_stats > XSPACE_EVENT_STATS_MAX)
		return fail(x, -EINVAL);
	r = reserve(x, EVENT_MAX);
	if (r < 0)
		return r;
	body = x->position + 2;
	p = wire_put_number(body, EVENT_METADATA_ID, name);
	/* Written also when it is 0: in a oneof, absent and 0 are not the same. */
	p = wire_put_number(p, EVENT_OFFSET, offset_ps);
	p = wire_put_number(p, EVENT_DURATION, duration_ps);
	for (unsigned int i = 0; i < n_stats; i++)
		p = put_stat(p, EVENT_STAT, &stats[i]);
	length = (size_t)(p - body);
	if (length >= 0x80) {
		memmove(body + 1, body, length);
		p++;
	}
	wire_put_number(x->position, LINE_EVENT, length);
	x->n_events++;
	return commit(x, p);
}

int xspace_hostname(struct xspace *x, const char *text)
{
	int r = check_depth(x, DEPTH_SPACE);

	return r < 0 ? r : append_text(x, SPACE_HOSTNAME, text);
}

int xspace_error(struct xspace *x, const char *text)
{
	int r = check_depth(x, DEPTH_SPACE);

	return r < 0 ? r : append_text(x, SPACE_ERROR, text);
}

int xspace_warning(struct xspace *x, const char *text)
{
	int r = check_depth(x, DEPTH_SPACE);

	return r < 0 ? r : append_text(x, SPACE_WARNING, text);
}

uint64_t xspace_n_events(const struct xspace *x)
{
	return x->n_events;
}

int xspace_finish(struct xspace *x, struct xspace_result *ret)
{
	size_t n = 0;
	int r = check_depth(x, DEPTH_SPACE);

	if (r < 0)
		return r;
	r = segment_close(x);
	if (r < 0)
		return r;
	/* A length prefix and what follows it lie side by side, unless a block ended there. */
	for (size_t i = 0; i < x->n_segments; i++) {
		struct iovec *last = n ? &x->segments[n - 1] : NULL;

		if (last &&
		    (uint8_t *)last->iov_base + last->iov_len == (uint8_t *)x->segments[i].iov_base)
			last->iov_len += x->segments[i].iov_len;
		else
			x->segments[n++] = x->segments[i];
	}
	*ret = (struct xspace_result){
		.chunks = TAKE_PTR(x->segments),
		.n_chunks = n,
		.size = x->size,
		.n_events = x->n_events,
		.blocks = TAKE_PTR(x->blocks),
	};
	x->depth = DEPTH_FINISHED;
	return 0;
}

void xspace_result_done(struct xspace_result *result)
{
	free(result->chunks);
	blocks_free(result->blocks);
	*result = (struct xspace_result){};
}
