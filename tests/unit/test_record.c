/* SPDX-License-Identifier: Apache-2.0 */
/* The store of records, the ring reader, and the search for an object's layout. */
#include "tests/unit/check.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/correlate/runtime/layout.h"
#include "daemon/record/ring.h"
#include "daemon/record/store.h"
#include "lib/base/macro.h"

static struct record_probe probe_at(uint64_t time)
{
	return (struct record_probe){ .head = { .time = time,
						.kind = RECORD_PROBE,
						.size8 = sizeof(struct record_probe) / 8 } };
}

static uint64_t taken[100000];
static unsigned n_taken;

static int take(const struct record *record, void *data)
{
	taken[n_taken++] = record->time;
	return 0;
}

static void check_order(void)
{
	for (unsigned i = 1; i < n_taken; i++)
		if (taken[i - 1] > taken[i]) {
			CHECK(taken[i - 1] <= taken[i]);
			break;
		}
}

TEST(records_of_all_streams_come_out_in_order_of_time)
{
	static const uint64_t times[2][5] = { { 10, 30, 20, 50, 40 }, { 15, 11, 60, 61, 12 } };
	struct store *s = NULL;

	n_taken = 0;
	CHECK_EQ(store_new(2, 8 << 20, &s), 0);
	for (unsigned stream = 0; stream < 2; stream++)
		for (unsigned i = 0; i < 5; i++) {
			struct record_probe r = probe_at(times[stream][i]);

			CHECK_EQ(store_add(s, stream, &r, sizeof(r)), 0);
		}
	CHECK_EQ(store_take(s, 20, take, NULL), 0);
	CHECK_EQ(n_taken, 4);
	CHECK_EQ(store_take(s, UINT64_MAX, take, NULL), 0);
	CHECK_EQ(n_taken, 10);
	check_order();
	store_free(s);
}

TEST(records_that_were_passed_on_make_room_for_more)
{
	struct store *s = NULL;
	unsigned refused = 0;

	n_taken = 0;
	CHECK_EQ(store_new(2, 1 << 20, &s), 0);
	for (uint64_t i = 0; i < 90000; i++) {
		struct record_probe r = probe_at(i ^ 5); /* a little out of order */

		refused += store_add(s, i % 3 == 0, &r, sizeof(r)) != 0;
		if (i % 1000 == 999)
			CHECK_EQ(store_take(s, i - 100, take, NULL), 0);
	}
	CHECK_EQ(store_take(s, UINT64_MAX, take, NULL), 0);
	CHECK_EQ(refused, 0);
	CHECK_EQ(n_taken, 90000);
	CHECK(store_bytes(s) <= 1 << 20);
	check_order();
	store_free(s);
}

TEST(records_of_a_wrong_size_are_refused)
{
	struct record_probe r = probe_at(1);
	struct store *s = NULL;

	CHECK_EQ(store_new(1, 8 << 20, &s), 0);
	CHECK_EQ(store_add(s, 0, &r, 8), -EBADMSG);
	CHECK_EQ(store_add(s, 0, &r, sizeof(r) - 8), -EBADMSG);
	CHECK_EQ(store_add(s, 0, &r, sizeof(r) + 1), -EBADMSG);
	r.head.size8 = 9;
	CHECK_EQ(store_add(s, 0, &r, sizeof(r)), -EBADMSG);
	r.head.kind = RECORD_NAME;
	CHECK_EQ(store_add(s, 0, &r, sizeof(r)), -EBADMSG);
	r.head.kind = 200; /* of a later version: skipped */
	CHECK_EQ(store_add(s, 0, &r, sizeof(r)), 0);
	n_taken = 0;
	CHECK_EQ(store_take(s, UINT64_MAX, take, NULL), 0);
	CHECK_EQ(n_taken, 0);
	store_free(s);
}

TEST(records_beyond_the_limit_are_refused)
{
	struct record_probe r = probe_at(1);
	struct store *s = NULL;
	unsigned kept = 0;

	CHECK_EQ(store_new(1, 2 << 20, &s), 0);
	for (unsigned i = 0; i < 100000; i++)
		kept += store_add(s, 0, &r, sizeof(r)) == 0;
	CHECK_EQ(kept, (2u << 20) / sizeof(r));
	store_free(s);
}

/* A file with the layout of a ring buffer; the data lies twice, as the kernel maps it. */
struct fake_ring {
	int fd;
	size_t size, page;
	unsigned long *consumer, *producer;
	char *data;
};

static void fake_ring_open(struct fake_ring *f)
{
	f->page = (size_t)sysconf(_SC_PAGESIZE);
	f->size = f->page;
	f->fd = memfd_create("ring", 0);
	CHECK(ftruncate(f->fd, (off_t)(2 * f->page + 2 * f->size)) == 0);
	f->consumer =
		mmap(NULL, 2 * f->page + 2 * f->size, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	f->producer = (void *)((char *)f->consumer + f->page);
	f->data = (char *)f->producer + f->page;
}

static void fake_ring_put(struct fake_ring *f, uint32_t size, uint32_t flags, uint64_t value)
{
	for (unsigned copy = 0; copy < 2; copy++) {
		size_t at = (*f->producer & (f->size - 1)) + copy * f->size;

		if (at + 16 > 2 * f->size)
			continue;
		*(uint32_t *)(f->data + at) = size | flags;
		*(uint64_t *)(f->data + at + 8) = value;
	}
	*f->producer += (size + 8 + 7) & ~7ul;
}

static uint64_t seen[4096];
static unsigned n_seen;

static int on_record(const void *record, size_t size, void *data)
{
	seen[n_seen++] = *(const uint64_t *)record;
	return 0;
}

TEST(a_ring_is_read_up_to_the_first_record_that_is_not_complete)
{
	struct fake_ring f;
	struct ring *r = NULL;

	n_seen = 0;
	fake_ring_open(&f);
	CHECK_EQ(ring_open(f.fd, f.size, &r), 0);
	fake_ring_put(&f, 8, 0, 1);
	fake_ring_put(&f, 8, BPF_RINGBUF_DISCARD_BIT, 2);
	fake_ring_put(&f, 8, 0, 3);
	fake_ring_put(&f, 8, BPF_RINGBUF_BUSY_BIT, 4);
	fake_ring_put(&f, 8, 0, 5);
	CHECK_EQ(ring_consume(r, on_record, NULL), 1);
	CHECK_EQ(n_seen, 2);
	CHECK_EQ(seen[0] + seen[1], 4);
	CHECK_EQ(*f.consumer, 48);
	*(uint32_t *)(f.data + 48) = 8;
	CHECK_EQ(ring_consume(r, on_record, NULL), 0);
	CHECK_EQ(n_seen, 4);
	CHECK_EQ(*f.consumer, *f.producer);
	ring_close(r);
	close(f.fd);
}

TEST(a_ring_is_read_across_its_end)
{
	struct fake_ring f;
	struct ring *r = NULL;
	uint64_t next = 0;

	n_seen = 0;
	fake_ring_open(&f);
	CHECK_EQ(ring_open(f.fd, f.size, &r), 0);
	for (unsigned round = 0; round < 9; round++) {
		for (unsigned i = 0; i < 100; i++)
			fake_ring_put(&f, 24, 0, next++);
		CHECK_EQ(ring_consume(r, on_record, NULL), 0);
	}
	CHECK_EQ(n_seen, next);
	for (unsigned i = 0; i < n_seen; i++)
		if (seen[i] != i) {
			CHECK_EQ(seen[i], i);
			break;
		}
	ring_close(r);
	close(f.fd);
}

static bool is_lower(const char *s, uint32_t size)
{
	return size && *s >= 'a' && *s <= 'z';
}

static bool is_upper(const char *s, uint32_t size)
{
	return size && *s >= 'A' && *s <= 'Z';
}

static const struct pack pack = {
	.names = { .is_name = is_lower, .is_type = is_upper, .type_distance = 16 }
};

static void add_candidate(struct record_object *o, uint32_t offset, const char *text)
{
	struct record_candidate *c = &o->candidates[o->n_candidates++];

	c->offset = offset;
	c->size = (uint32_t)strlen(text);
	memcpy(c->bytes, text, c->size);
}

TEST(a_layout_is_accepted_when_several_objects_agree_on_it)
{
	struct layout_search search = { .names = &pack.names };
	struct record_layout layout = {};

	for (unsigned i = 0; i < LAYOUT_PROOFS; i++) {
		struct record_object o = {};

		CHECK(!layout_search_result(&search, &layout));
		add_candidate(&o, 40, "noise");
		add_candidate(&o, 200, "scope/op");
		add_candidate(&o, 216, "MatMul");
		layout_search_add(&search, &o);
	}
	CHECK(layout_search_result(&search, &layout));
	CHECK_EQ(layout.name_offset, 200);
	CHECK_EQ(layout.type_offset, 216);
}

static bool holds(const struct record_object *o, const char *text)
{
	return memmem(o, sizeof(*o), text, strlen(text)) != NULL;
}

TEST(what_an_object_points_to_besides_its_names_is_not_kept)
{
	const struct record_layout layout = { .name_offset = 200, .type_offset = 216 };
	struct record_object o = {}, known;

	add_candidate(&o, 40, "a secret");
	add_candidate(&o, 64, "SECRET");
	add_candidate(&o, 96, "another secret");
	add_candidate(&o, 200, "scope/op");
	add_candidate(&o, 216, "MatMul");
	known = o;
	object_keep_names(&o, &pack.names, NULL);
	CHECK(holds(&o, "scope/op") && holds(&o, "MatMul"));
	CHECK(!holds(&o, "secret") && !holds(&o, "SECRET"));
	/* A pair that looks like a name goes, too, once the place is known. */
	add_candidate(&known, 300, "op in a text");
	add_candidate(&known, 316, "Text");
	object_keep_names(&known, &pack.names, &layout);
	CHECK(holds(&known, "scope/op") && holds(&known, "MatMul"));
	CHECK(!holds(&known, "secret") && !holds(&known, "in a text"));
	/* The same layout is found in what is left. */
	CHECK_EQ(o.n_candidates, 5);
}

TEST(an_ambiguous_or_contradicted_layout_is_not_accepted)
{
	struct layout_search ambiguous = { .names = &pack.names },
			     contradicted = { .names = &pack.names };
	struct record_layout layout;

	for (unsigned i = 0; i < 2 * LAYOUT_PROOFS; i++) {
		struct record_object o = {};

		add_candidate(&o, 200, "scope/op");
		add_candidate(&o, 216, "MatMul");
		if (i != 1)
			layout_search_add(&contradicted, &o);
		add_candidate(&o, 80, "other");
		add_candidate(&o, 96, "Thing");
		layout_search_add(&ambiguous, &o);
	}
	layout_search_add(&contradicted, &(struct record_object){});
	CHECK(!layout_search_result(&ambiguous, &layout));
	CHECK(!layout_search_result(&contradicted, &layout));
}

TEST(a_hostile_object_record_is_read_within_its_bounds)
{
	struct layout_search search = { .names = &pack.names };
	struct record_object o = { .n_candidates = UINT32_MAX };
	uint32_t size = 0;

	for (unsigned i = 0; i < RECORD_CANDIDATES; i++)
		o.candidates[i] =
			(struct record_candidate){ .offset = UINT32_MAX - i, .size = UINT32_MAX };
	layout_search_add(&search, &o);
	CHECK(object_view(&o, 5, &size) == NULL);
	CHECK(object_view(&o, UINT32_MAX, &size) != NULL);
	CHECK_EQ(size, RECORD_CANDIDATE_SIZE);
}

CHECK_MAIN()
