/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/unwind/unwinder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/capture/unwind/code.h"
#include "lib/base/loop.h"
#include "lib/base/macro.h"

/* Rows are read in some hundredths of a second per file. */
#define WAIT_NS 2000000000ull
/* Of stacks that wait. */
#define HELD_BYTES_MAX (64u << 20)
/* Copies whose stack has not come yet: it comes next from the same CPU. */
#define COPIES_MAX 64
#define STACK_BYTES_MAX (255 * 8)

struct copy {
	struct record_stack_copy head;
	uint8_t *bytes; /* NULL: none */
};

struct held {
	struct held *next;
	uint64_t since_ns;
	struct copy copy;
	size_t size;
	union {
		struct record_stack stack;
		uint64_t words[STACK_BYTES_MAX / 8];
	};
};

struct unwinder {
	struct code *code;
	unwinder_fn fn;
	void *data;
	struct copy copies[COPIES_MAX];
	unsigned next_copy;
	struct held *first, **last;
	size_t held_bytes;
	bool is_finishing;
	unsigned target; /* whose stack is followed now */
	struct unwinder_counts counts;
};

int unwinder_new(struct proxy *proxy, unwinder_fn fn, void *data, struct unwinder **ret)
{
	struct unwinder *u = calloc(1, sizeof(*u));

	if (!u || code_new(proxy, &u->code) < 0) {
		free(u);
		return -ENOMEM;
	}
	u->fn = fn;
	u->data = data;
	u->last = &u->first;
	*ret = u;
	return 0;
}

/* They may hold anything of the target. */
static void drop_copy(struct copy *c)
{
	if (c->bytes)
		explicit_bzero(c->bytes, c->head.n_bytes);
	free(c->bytes);
	*c = (struct copy){};
}

struct unwinder *unwinder_free(struct unwinder *u)
{
	if (!u)
		return NULL;
	for (unsigned i = 0; i < COPIES_MAX; i++)
		drop_copy(&u->copies[i]);
	for (struct held *h = u->first, *next; h; h = next) {
		next = h->next;
		drop_copy(&h->copy);
		free(h);
	}
	code_free(u->code);
	free(u);
	return NULL;
}

void unwinder_set_target(struct unwinder *u, unsigned target, pid_t pid)
{
	code_set_target(u->code, target, pid);
}

static bool add_copy(struct unwinder *u, const void *record, size_t size)
{
	struct copy *c = &u->copies[u->next_copy++ % COPIES_MAX];
	struct record_stack_copy head;

	if (size < sizeof(head))
		return false;
	memcpy(&head, record, sizeof(head));
	if (head.n_bytes > RECORD_COPY_BYTES || head.n_below > head.n_bytes ||
	    size - sizeof(head) < head.n_bytes)
		return false;
	u->counts.unpaired += c->bytes != NULL;
	drop_copy(c);
	c->bytes = malloc(head.n_bytes + 1u);
	if (!c->bytes)
		return true;
	c->head = head;
	memcpy(c->bytes, (const char *)record + sizeof(head), head.n_bytes);
	return true;
}

static struct copy *find_copy(struct unwinder *u, const struct record *r)
{
	/* It is among the last ones. */
	for (unsigned i = 1; i <= COPIES_MAX; i++) {
		struct copy *c = &u->copies[(u->next_copy - i) % COPIES_MAX];

		if (c->bytes && c->head.head.time == r->time && c->head.head.tid == r->tid)
			return c;
	}
	return NULL;
}

static enum walk_code find_row(uint64_t address, struct unwind_row *ret, void *data)
{
	struct unwinder *u = data;
	enum walk_code code = code_find(u->code, u->target, address, ret);

	return code == WALK_LATER && u->is_finishing ? WALK_NO_ROW : code;
}

/* Passes it on with these frames in place of those by frame pointers. */
static void pass_on(struct unwinder *u, const struct record_stack *r, size_t size,
		    const uint64_t *frames, unsigned n)
{
	const size_t before = sizeof(*r) + r->n_user * sizeof(uint64_t);
	uint64_t words[STACK_BYTES_MAX / 8 + RECORD_USER_FRAMES];
	struct record_stack head = *r;
	size_t total = sizeof(head) + n * sizeof(frames[0]) + (size - before);

	head.n_user = (uint16_t)n;
	head.head.size8 = (uint8_t)(total / 8);
	memcpy(words, &head, sizeof(head));
	memcpy((char *)words + sizeof(head), frames, n * sizeof(frames[0]));
	memcpy((char *)words + sizeof(head) + n * sizeof(frames[0]), (const char *)r + before,
	       size - before);
	u->fn((const struct record *)words, total, u->data);
}

/* False: rows are missing. */
static bool follow(struct unwinder *u, const struct record_stack *r, size_t size,
		   const struct copy *copy)
{
	struct walk walk = { .ip = copy->head.ip,
			     .sp = copy->head.sp,
			     .bp = copy->head.bp,
			     .start = copy->head.sp - copy->head.n_below,
			     .stack = copy->bytes,
			     .size = copy->head.n_bytes,
			     .chain = (const uint64_t *)(r + 1),
			     .n_chain = r->n_user,
			     .code = find_row,
			     .data = u };
	uint64_t frames[RECORD_USER_FRAMES];
	bool whole;
	int n;

	u->target = r->head.target;
	n = walk_stack(&walk, frames, RECORD_USER_FRAMES - 1, &whole);
	if (n < 0)
		return false;
	/* What is missing is shown. */
	if (!whole)
		frames[n++] = RECORD_FRAME_CUT;
	u->counts.stacks++;
	u->counts.cut += !whole;
	pass_on(u, r, size, frames, (unsigned)n);
	return true;
}

static bool is_whole(const struct record_stack *r, size_t size)
{
	return size >= sizeof(*r) && size <= STACK_BYTES_MAX && size % 8 == 0 &&
	       r->n_user <= RECORD_USER_FRAMES && r->n_kernel <= RECORD_KERNEL_FRAMES &&
	       sizeof(*r) + ((size_t)r->n_user + r->n_kernel) * sizeof(uint64_t) <= size;
}

/* Places whose rows are wanted are asked for together. */
static void ask_for_chain(struct unwinder *u, const struct record_stack *r)
{
	const uint64_t *chain = (const uint64_t *)(r + 1);
	struct unwind_row ignored;

	for (unsigned i = 1; i < r->n_user; i++)
		code_find(u->code, r->head.target, chain[i] - 1, &ignored);
}

static void hold(struct unwinder *u, const struct record_stack *r, size_t size, struct copy *copy)
{
	struct held *h = NULL;

	if (u->held_bytes + sizeof(*h) + copy->head.n_bytes <= HELD_BYTES_MAX)
		h = calloc(1, sizeof(*h));
	if (!h) {
		u->is_finishing = true;
		follow(u, r, size, copy);
		u->is_finishing = false;
		drop_copy(copy);
		return;
	}
	h->since_ns = loop_now();
	h->copy = *copy;
	h->size = size;
	memcpy(h->words, r, size);
	*copy = (struct copy){};
	*u->last = h;
	u->last = &h->next;
	u->held_bytes += sizeof(*h) + h->copy.head.n_bytes;
	ask_for_chain(u, r);
}

bool unwinder_add(struct unwinder *u, const void *record, size_t size)
{
	const struct record_stack *r = record;
	struct copy *copy;

	if (r->head.kind == RECORD_STACK_COPY)
		return add_copy(u, record, size);
	if (!is_whole(r, size))
		return false;
	copy = find_copy(u, &r->head);
	if (!copy) {
		u->counts.plain += r->n_user > 0;
		u->fn(&r->head, size, u->data);
	} else if (follow(u, r, size, copy)) {
		drop_copy(copy);
	} else {
		hold(u, r, size, copy);
	}
	return true;
}

void unwinder_work(struct unwinder *u)
{
	uint64_t now = loop_now();
	struct held **at = &u->first;
	bool news = code_work(u->code);

	/* Those whose stack was lost. */
	for (unsigned i = 0; i < COPIES_MAX; i++) {
		struct copy *c = &u->copies[i];

		if (c->bytes && now > c->head.head.time + WAIT_NS) {
			u->counts.unpaired++;
			drop_copy(c);
		}
	}
	while (*at) {
		struct held *h = *at;
		bool late = now - h->since_ns > WAIT_NS, finishing = u->is_finishing;

		u->is_finishing |= late;
		if ((news || u->is_finishing) && follow(u, &h->stack, h->size, &h->copy)) {
			*at = h->next;
			u->held_bytes -= sizeof(*h) + h->copy.head.n_bytes;
			drop_copy(&h->copy);
			free(h);
		} else {
			at = &h->next;
		}
		u->is_finishing = finishing;
	}
	u->last = at;
}

void unwinder_finish(struct unwinder *u)
{
	u->is_finishing = true;
	unwinder_work(u);
	u->is_finishing = false;
}

uint64_t unwinder_oldest(const struct unwinder *u)
{
	uint64_t oldest = UINT64_MAX;

	for (const struct held *h = u->first; h; h = h->next)
		oldest = MIN(oldest, h->stack.head.time);
	return oldest;
}

void unwinder_count(const struct unwinder *u, struct unwinder_counts *ret)
{
	*ret = u->counts;
}
