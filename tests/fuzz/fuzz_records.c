/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records as a hostile target can cause them: any values in records of the right sizes, fed to the
 * correlator, whose timeline then becomes a trace.
 */
#include "daemon/correlate/correlate.h"
#include "daemon/export/exporter.h"
#include "daemon/export/summary/summary.h"
#include "daemon/plan/packs.h"
#include "daemon/record/store.h"
#include "tests/fuzz/fuzz.h"

#define START 1000000
#define RECORDS_MAX 4096
/* Of a record that states its size. */
#define RECORD_BYTES_MAX (255 * 8)

/* The next record: a head from a few bytes, so that threads and sites occur again, and then as much
 * of the body as the input has. */
static void take_record(struct fuzz_input *in, uint64_t *time, uint8_t *ret)
{
	struct record head = { .kind = (uint8_t)(fuzz_take(in, 1) % (RECORD_ACCEPTED + 2)) };
	size_t size, n;

	head.tid = (uint32_t)fuzz_take(in, 1) % 8;
	head.site = (uint8_t)fuzz_take(in, 1);
	head.target = (uint8_t)fuzz_take(in, 1) % 3;
	*time += fuzz_take(in, 1);
	head.time = *time;
	size = store_record_size(&head) ?: sizeof(struct record_thread);
	if (head.kind == RECORD_PROBE && !(fuzz_take(in, 1) & 1))
		size = sizeof(struct record_probe2);
	if (head.kind == RECORD_MESSAGE && !(fuzz_take(in, 1) & 1))
		size = sizeof(struct record_headers);
	/* It states itself how many frames it has. */
	if (head.kind == RECORD_STACK)
		size = MIN(size + 8 * (size_t)fuzz_take(in, 1), (size_t)RECORD_BYTES_MAX);
	head.size8 = (uint8_t)(size / 8 > 255 ? 0 : size / 8);
	memset(ret, 0, size);
	memcpy(ret, &head, sizeof(head));
	n = MIN((size_t)fuzz_take(in, 1), size - sizeof(head));
	n = MIN(n, in->size);
	memcpy(ret + sizeof(head), in->data, n);
	in->data += n;
	in->size -= n;
}

/* As a capture does by the symbols of files. */
static void name_functions(struct stacks *s)
{
	for (size_t i = 0; i < s->n_frames; i++)
		if (s->frames[i].function == STACK_NONE)
			(void)stacks_function(s, "function", "", &s->frames[i].function);
}

static void export(const struct timeline *t)
{
	for (const struct exporter *const *e = exporters; *e; e++) {
		struct exported trace = {};

		if ((*e)->make(t, &(struct export_options){ .level = 3 }, &trace) >= 0)
			exported_done(&trace);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static _Alignas(8) uint8_t record[MAX(sizeof(struct record_object), RECORD_BYTES_MAX) + 8];
	struct correlate_target target = { .pid = 10,
					   .name = "server",
					   .packs = pack_set_get(UINT64_MAX) };
	struct fuzz_input in = { .data = data, .size = size };
	struct record_layout layout = { .name_offset = 200, .type_offset = 216 };
	struct timeline *timeline = NULL;
	struct correlator *c = NULL;
	uint64_t time = START;

	if (!target.packs)
		target.packs = pack_set_get(1);
	if (correlator_new(START, &c) < 0)
		return 0;
	target.ops_at_entry = fuzz_take(&in, 1) & 1;
	correlator_add_target(c, &target);
	target.pid++;
	correlator_add_target(c, &target);
	for (unsigned i = 0; in.size && i < RECORDS_MAX; i++) {
		uint8_t what = *in.data;

		if (what >= 0xf0) {
			fuzz_take(&in, 1);
			if (what == 0xf0)
				correlator_resume(c, time & 1 ? KIND_OPS : KIND_EXECUTORS, time);
			else if (what < 0xf4)
				correlator_shed(c, what % KIND_COUNT, time, "shed");
			else if (what < 0xf8)
				correlator_note_loss(c, time - fuzz_take(&in, 2), time);
			else
				correlator_set_layout(c, what & 1, 0, &layout);
			continue;
		}
		take_record(&in, &time, record);
		correlator_feed(c, (const struct record *)record);
	}
	if (correlator_finish(c, time + 10, 5000000000, &timeline) >= 0) {
		name_functions(&timeline->stacks);
		export(timeline);
	}
	timeline_free(timeline);
	correlator_free(c);
	return 0;
}
