/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Blocks of header fields of one connection, as the programs in the kernel read them, compared with
 * nghttp2: a path that is shown is the one that was sent, without its query.
 */
#include <nghttp2/nghttp2.h>
#include <stdio.h>

#include "tests/fuzz/connection.h"

#define BLOCKS_MAX 8
#define PATH_MAX_BYTES 4096
#define FRAME_HEAD 9

/* What nghttp2 finds in a block. */
struct sent {
	char path[PATH_MAX_BYTES]; /* without the query */
	unsigned n_paths;
	bool is_plain; /* no byte that is shown in another way */
};

static void note_path(struct sent *sent, const nghttp2_nv *field)
{
	size_t n = MIN(field->valuelen, sizeof(sent->path) - 1);

	if (field->namelen != 5 || memcmp(field->name, ":path", 5))
		return;
	sent->n_paths++;
	sent->is_plain = field->valuelen == n;
	memcpy(sent->path, field->value, n);
	sent->path[n] = 0;
	for (size_t i = 0; i < n; i++)
		sent->is_plain &= sent->path[i] > ' ' && sent->path[i] < 0x7f;
	sent->path[strcspn(sent->path, "?")] = 0;
}

/* False: a connection ends with such a block. */
static bool inflate(nghttp2_hd_inflater *inflater, const uint8_t *block, size_t size,
		    struct sent *ret)
{
	*ret = (struct sent){};
	for (;;) {
		nghttp2_nv field;
		int flags = 0;
		ssize_t n = nghttp2_hd_inflate_hd2(inflater, &field, &flags, block, size, 1);

		if (n < 0)
			return false;
		block += n;
		size -= (size_t)n;
		if (flags & NGHTTP2_HD_INFLATE_EMIT)
			note_path(ret, &field);
		if (flags & NGHTTP2_HD_INFLATE_FINAL)
			break;
		if (!size && !(flags & NGHTTP2_HD_INFLATE_EMIT))
			return false;
	}
	nghttp2_hd_inflate_end_headers(inflater);
	return true;
}

static void pass_block(uint32_t stream, const uint8_t *block, size_t size, uint64_t now)
{
	static uint8_t frame[FRAME_HEAD + UINT16_MAX];
	const uint8_t head[FRAME_HEAD] = { 0, (uint8_t)(size >> 8), (uint8_t)size, 1, 5, 0, 0,
					   0, (uint8_t)stream };

	memcpy(frame, head, sizeof(head));
	memcpy(frame + sizeof(head), block, size);
	pass(8, frame, sizeof(head) + size, now);
}

static void compare(const struct timeline *t, const struct sent *sent, unsigned n)
{
	for (uint32_t i = 0; i < t->n_requests; i++) {
		const struct request *q = &t->requests[i];
		unsigned at = q->stream / 2;
		const char *path = q->path == TEXT_NONE ? NULL : t->texts[q->path];

		if (path && strchr(path, '?'))
			abort();
		if (!path || at >= n || sent[at].n_paths != 1 || !sent[at].is_plain)
			continue;
		if (strcmp(path, sent[at].path) && strcmp(path, "(too long)")) {
			fprintf(stderr, "stream %u: '%s', not '%s'\n", q->stream, path,
				sent[at].path);
			abort();
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
	static struct sent sent[BLOCKS_MAX];
	struct fuzz_input in = { .data = data, .size = size };
	nghttp2_hd_inflater *inflater;
	struct timeline *timeline;
	uint64_t now = START;
	unsigned n = 0;

	if (nghttp2_hd_inflate_new(&inflater) != 0)
		return 0;
	if (!connection_begin()) {
		nghttp2_hd_inflate_del(inflater);
		return 0;
	}
	pass(8, (const uint8_t *)preface, sizeof(preface), now += CALL_NS);
	while (in.size && n < BLOCKS_MAX) {
		size_t block = fuzz_take(&in, 2);

		block = MIN(block, in.size);
		if (!block || !inflate(inflater, in.data, block, &sent[n]))
			break;
		pass_block(2 * n + 1, in.data, block, now += CALL_NS);
		n++;
		in.data += block;
		in.size -= block;
	}
	nghttp2_hd_inflate_del(inflater);
	timeline = connection_end(now + CALL_NS);
	if (timeline)
		compare(timeline, sent, n);
	timeline_free(timeline);
	return 0;
}
