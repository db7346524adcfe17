/* SPDX-License-Identifier: Apache-2.0 */
/* Sampled stacks as folded text and as a profile of pprof. */
#include <zlib.h>

#include "daemon/export/exporter.h"
#include "daemon/export/summary/hot_functions.h"
#include "proto/profile.pb-c.h"
#include "tests/unit/check.h"

#define BYTES_MAX 65536

static struct thread threads[] = { { .tid = 10, .name = "worker" },
				   { .tid = 11, .name = "worker" },
				   { .tid = 12, .name = "a;b" } };
static struct process processes[] = { { .pid = 9, .name = "server" } };
static struct span_name names[] = { { .name = (char *)"scope/mul:MatMul",
				      .display = (char *)"MatMul" } };

/* Frames of one function each. */
static uint32_t frame_of(struct stacks *s, uint64_t address, const char *name, const char *file)
{
	uint32_t frame = 0;

	CHECK_EQ(stacks_frame(s, strcmp(file, STACK_KERNEL_FILE) ? 0 : STACK_KERNEL, address,
			      &frame),
		 0);
	CHECK_EQ(stacks_function(s, name, file, &s->frames[frame].function), 0);
	return frame;
}

/* Two threads of one name in main, f, f (recursive) and a read, one of another name in main. */
static void fill(struct timeline *t)
{
	uint32_t f, g, main_, kernel;
	struct stacks *s = &t->stacks;

	*t = (struct timeline){ .start_unix_ns = 5,
				.end_ns = 2000,
				.threads = threads,
				.n_threads = 3,
				.processes = processes,
				.n_processes = 1,
				.names = names,
				.n_names = 1 };
	s->hz = 100;
	f = frame_of(s, 0x1000, "f(a; b)", "server");
	g = frame_of(s, 0x1010, "f(a; b)", "server");
	main_ = frame_of(s, 0x2000, "main", "server");
	kernel = frame_of(s, 1, "vfs_read", STACK_KERNEL_FILE);
	CHECK_EQ(stacks_add(s, 100, 0, (uint32_t[]){ kernel, f, g, main_ }, 4), 0);
	CHECK_EQ(stacks_add(s, 200, 1, (uint32_t[]){ kernel, f, g, main_ }, 4), 0);
	CHECK_EQ(stacks_add(s, 300, 2, (uint32_t[]){ main_ }, 1), 0);
	CHECK_EQ(stacks_add(s, 400, 0, (uint32_t[]){ f, g, main_ }, 3), 0);
	s->samples[3].op = 0;
	s->samples[3].request = 6;
	s->samples[3].phase = PHASE_QUEUE;
}

/* In one piece. */
static size_t export_as(const char *format, const struct timeline *t, uint8_t *ret)
{
	struct exported e = {};
	size_t size = 0;

	CHECK_EQ(exporter_find(format)->make(t, &(struct export_options){ .level = 2 }, &e), 0);
	for (size_t i = 0; i < e.n_chunks && size + e.chunks[i].iov_len < BYTES_MAX; i++) {
		memcpy(ret + size, e.chunks[i].iov_base, e.chunks[i].iov_len);
		size += e.chunks[i].iov_len;
	}
	exported_done(&e);
	return size;
}

TEST(equal_stacks_of_threads_of_one_name_are_one_line)
{
	static uint8_t bytes[BYTES_MAX];
	struct timeline t;

	fill(&t);
	bytes[export_as("folded", &t, bytes)] = 0;
	CHECK_STR((char *)bytes, "a:b;main 1\n"
				 "worker;main;f(a: b);f(a: b);vfs_read_[k] 2\n"
				 "worker;main;f(a: b);f(a: b) 1\n");
	stacks_done(&t.stacks);
}

static Perftools__Profiles__Profile *decompressed(const uint8_t *bytes, size_t size)
{
	static uint8_t plain[BYTES_MAX];
	z_stream z = { .next_in = (Bytef *)bytes,
		       .avail_in = (uInt)size,
		       .next_out = plain,
		       .avail_out = sizeof(plain) };

	CHECK_EQ(inflateInit2(&z, 15 + 16), Z_OK);
	CHECK_EQ(inflate(&z, Z_FINISH), Z_STREAM_END);
	inflateEnd(&z);
	return perftools__profiles__profile__unpack(NULL, z.total_out, plain);
}

TEST(a_profile_has_each_sample_with_its_functions_and_labels)
{
	static uint8_t bytes[BYTES_MAX];
	Perftools__Profiles__Profile *p;
	Perftools__Profiles__Sample *last;
	Perftools__Profiles__Location *place;
	Perftools__Profiles__Function *function;
	struct timeline t;

	fill(&t);
	p = decompressed(bytes, export_as("pprof", &t, bytes));
	CHECK(p);
	if (!p)
		return;
	CHECK_EQ(p->n_sample, 4);
	CHECK_EQ(p->period, 10000000);
	CHECK_STR(p->string_table[0], "");
	last = p->sample[3];
	CHECK_EQ(last->n_location_id, 3);
	CHECK_EQ(last->value[0], 1);
	CHECK_EQ(last->value[1], 10000000);
	CHECK_EQ(last->n_label, 5);
	CHECK_STR(p->string_table[last->label[0]->str], "worker/10");
	CHECK_STR(p->string_table[last->label[1]->str], "server/9");
	CHECK_STR(p->string_table[last->label[2]->str], "scope/mul:MatMul");
	CHECK_STR(p->string_table[last->label[3]->str], "queue wait");
	CHECK_EQ(last->label[4]->num, 6);
	CHECK_EQ(p->sample[0]->n_label, 2);
	place = p->location[last->location_id[0] - 1];
	CHECK_EQ(place->id, last->location_id[0]);
	CHECK_EQ(place->address, 0x1000);
	function = p->function[place->line[0]->function_id - 1];
	CHECK_STR(p->string_table[function->name], "f(a; b)");
	perftools__profiles__profile__free_unpacked(p, NULL);
	stacks_done(&t.stacks);
}

TEST(a_stack_of_any_length_fits_into_the_trace)
{
	static uint8_t bytes[BYTES_MAX];
	char name[512];
	struct timeline t;
	uint32_t list[7];

	/* The text of the sixth function ends near the end of the room. */
	for (unsigned size = 200; size < 300; size++) {
		fill(&t);
		for (unsigned i = 0; i < 7; i++) {
			memset(name, 'a' + (char)i, sizeof(name));
			name[i == 5 ? size : 350] = 0;
			list[i] = frame_of(&t.stacks, 0x9000 + i, name, "long");
		}
		CHECK_EQ(stacks_add(&t.stacks, 1000, 0, list, 7), 0);
		CHECK(export_as("xspace", &t, bytes) > 0);
		stacks_done(&t.stacks);
	}
}

TEST(hot_functions_count_a_recursive_function_once)
{
	struct hot_places hot;
	struct timeline t;

	fill(&t);
	CHECK_EQ(hot_places_make(&t, &hot), 0);
	CHECK_EQ(hot.n, 3);
	CHECK_EQ(hot.list[0].samples, 4);
	CHECK_STR(hot.list[0].functions[0].name, "vfs_read");
	CHECK_EQ(hot.list[0].functions[0].self, 2);
	CHECK_STR(hot.list[0].functions[1].name, "f(a; b)");
	CHECK_EQ(hot.list[0].functions[1].self, 1);
	CHECK_EQ(hot.list[0].functions[1].total, 3);
	CHECK_EQ(hot.list[1].kind, HOT_PHASE);
	CHECK_STR(hot.list[1].name, "queue wait");
	CHECK_EQ(hot.list[2].kind, HOT_OP);
	CHECK_STR(hot.list[2].name, "MatMul");
	CHECK_EQ(hot.list[2].samples, 1);
	hot_places_done(&hot);
	stacks_done(&t.stacks);
}

TEST(the_functions_of_some_samples_are_those_of_no_other)
{
	struct hot_function hot[HOT_FUNCTIONS_MAX];
	struct timeline t;

	fill(&t);
	CHECK_EQ(hot_functions_of(&t.stacks, (uint64_t[]){ 2, 3 }, 2, hot), 2);
	CHECK_STR(hot[0].name, "main");
	CHECK_EQ(hot[0].self, 1);
	CHECK_EQ(hot[0].total, 2);
	CHECK_STR(hot[1].name, "f(a; b)");
	CHECK_EQ(hot[1].total, 1);
	CHECK_EQ(hot_functions_of(&t.stacks, NULL, 0, hot), 0);
	stacks_done(&t.stacks);
}

CHECK_MAIN()
