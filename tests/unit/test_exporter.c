/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/exporter.h"
#include "tests/unit/check.h"

TEST(the_first_format_is_the_default)
{
	CHECK(exporters[0]);
	CHECK(exporter_find("") == exporters[0]);
	CHECK_STR(exporters[0]->name, "xspace");
	CHECK(!exporter_find("none of them"));
}

TEST(each_format_has_a_name_of_its_own_and_makes_a_trace_of_any_timeline)
{
	struct timeline empty = {};

	for (const struct exporter *const *e = exporters; *e; e++) {
		struct exported trace = {};
		uint64_t size = 0;

		CHECK(exporter_find((*e)->name) == *e);
		CHECK_EQ((*e)->make(&empty, &(struct export_options){ .level = 2 }, &trace), 0);
		for (size_t i = 0; i < trace.n_chunks; i++)
			size += trace.chunks[i].iov_len;
		CHECK_EQ(size, trace.size);
		/* A text without lines is one of no stacks. */
		CHECK_EQ(size > 0, strcmp((*e)->name, "folded") != 0);
		exported_done(&trace);
		CHECK_EQ(trace.n_chunks, 0);
		exported_done(&trace);
	}
}

CHECK_MAIN()
