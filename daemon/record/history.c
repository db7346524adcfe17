/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/record/history.h"

#include <errno.h>
#include <string.h>

#include "daemon/record/store.h"
#include "lib/base/macro.h"

#define BLOCK_BYTES (256u << 10)
#define BLOCKS_MIN 2

struct block {
	unsigned n_holds; /* by the history and by views, in several threads */
	size_t used;
	uint64_t last_ns;
	uint8_t bytes[BLOCK_BYTES - 32] __attribute__((aligned(8)));
};

struct history {
	uint64_t max_bytes, last_ns;
	history_fn gone;
	void *data;
	struct block **blocks; /* a ring */
	size_t first, n, size;
};

struct history_view {
	size_t n, last_used; /* of the last block, which still grows */
	struct block *blocks[];
};

static void block_release(struct block *block)
{
	if (__atomic_sub_fetch(&block->n_holds, 1, __ATOMIC_ACQ_REL) == 0)
		free(block);
}

int history_new(uint64_t max_bytes, uint64_t last_ns, history_fn gone, void *data,
		struct history **ret)
{
	struct history *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	*h = (struct history){
		.max_bytes = max_bytes, .last_ns = last_ns, .gone = gone, .data = data
	};
	h->size = MAX(max_bytes / sizeof(struct block), (uint64_t)BLOCKS_MIN);
	h->blocks = calloc(h->size, sizeof(h->blocks[0]));
	if (!h->blocks) {
		free(h);
		return -ENOMEM;
	}
	*ret = h;
	return 0;
}

struct history *history_free(struct history *h)
{
	if (!h)
		return NULL;
	for (size_t i = 0; i < h->n; i++)
		block_release(h->blocks[(h->first + i) % h->size]);
	free(h->blocks);
	free(h);
	return NULL;
}

static int block_read(const struct block *block, size_t used, history_fn fn, void *data)
{
	for (size_t at = 0; at < used;) {
		const struct record *record = (const void *)(block->bytes + at);
		int r = fn(record, data);

		if (r != 0)
			return r;
		at += store_record_size(record);
	}
	return 0;
}

static int drop_first(struct history *h)
{
	struct block *block = h->blocks[h->first];
	int r = h->gone ? block_read(block, block->used, h->gone, h->data) : 0;

	h->first = (h->first + 1) % h->size;
	h->n--;
	block_release(block);
	return r;
}

static int add_block(struct history *h, uint64_t now)
{
	struct block *block;
	int r = 0;

	while (r == 0 && h->n >= BLOCKS_MIN &&
	       (h->n == h->size || h->blocks[h->first]->last_ns + h->last_ns < now))
		r = drop_first(h);
	if (r < 0)
		return r;
	block = malloc(sizeof(*block));
	if (!block)
		return -ENOMEM;
	block->n_holds = 1;
	block->used = 0;
	h->blocks[(h->first + h->n++) % h->size] = block;
	return 0;
}

int history_add(struct history *h, const struct record *record)
{
	struct block *last = h->n ? h->blocks[(h->first + h->n - 1) % h->size] : NULL;
	size_t size = store_record_size(record);
	int r;

	if (!size || size > sizeof(last->bytes))
		return -EINVAL;
	if (!last || last->used + size > sizeof(last->bytes)) {
		r = add_block(h, record->time);
		if (r < 0)
			return r;
		last = h->blocks[(h->first + h->n - 1) % h->size];
	}
	memcpy(last->bytes + last->used, record, size);
	last->used += size;
	last->last_ns = record->time;
	return 0;
}

uint64_t history_oldest(const struct history *h)
{
	return h->n ? ((const struct record *)(const void *)h->blocks[h->first]->bytes)->time
		    : UINT64_MAX;
}

uint64_t history_bytes(const struct history *h)
{
	return h->n * sizeof(struct block);
}

int history_view_new(const struct history *h, struct history_view **ret)
{
	struct history_view *view = calloc(1, sizeof(*view) + h->n * sizeof(view->blocks[0]));

	if (!view)
		return -ENOMEM;
	view->n = h->n;
	for (size_t i = 0; i < h->n; i++) {
		view->blocks[i] = h->blocks[(h->first + i) % h->size];
		__atomic_add_fetch(&view->blocks[i]->n_holds, 1, __ATOMIC_RELAXED);
	}
	view->last_used = h->n ? view->blocks[h->n - 1]->used : 0;
	*ret = view;
	return 0;
}

int history_view_read(const struct history_view *view, history_fn fn, void *data)
{
	int r = 0;

	for (size_t i = 0; i < view->n && r == 0; i++)
		r = block_read(view->blocks[i],
			       i + 1 == view->n ? view->last_used : view->blocks[i]->used, fn,
			       data);
	return r;
}

struct history_view *history_view_free(struct history_view *view)
{
	if (!view)
		return NULL;
	for (size_t i = 0; i < view->n; i++)
		block_release(view->blocks[i]);
	free(view);
	return NULL;
}
