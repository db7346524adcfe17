/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests a capture shows. */
#include "daemon/timeline/filter.h"

#include "lib/base/macro.h"
#include "tests/unit/check.h"

static char *texts[] = { (char *)"/v1/models/a:predict", (char *)"a", (char *)"" };
static const struct timeline timeline = { .texts = texts, .n_texts = ARRAY_SIZE(texts) };

static bool passes(struct request_filter filter, struct request request)
{
	return request_filter_passes(&filter, &timeline, &request);
}

TEST(without_a_filter_everything_passes)
{
	CHECK(passes((struct request_filter){},
		     (struct request){ .path = TEXT_NONE, .model = TEXT_NONE }));
	CHECK(passes((struct request_filter){ .count = 3 },
		     (struct request){ .path = TEXT_NONE, .model = TEXT_NONE }));
}

TEST(a_request_passes_if_it_is_slower_but_not_if_equally_slow)
{
	CHECK(!passes((struct request_filter){ .slower_than_ns = 20 },
		      (struct request){ .start_ns = 100, .end_ns = 119 }));
	CHECK(!passes((struct request_filter){ .slower_than_ns = 20 },
		      (struct request){ .start_ns = 100, .end_ns = 120 }));
	CHECK(passes((struct request_filter){ .slower_than_ns = 20 },
		     (struct request){ .start_ns = 100, .end_ns = 121 }));
}

TEST(a_path_is_matched_as_a_whole_and_an_unknown_one_does_not_pass)
{
	CHECK(passes((struct request_filter){ .path = "/v1/*:predict" },
		     (struct request){ .path = 0 }));
	CHECK(!passes((struct request_filter){ .path = "/v1/" }, (struct request){ .path = 0 }));
	CHECK(!passes((struct request_filter){ .path = "*" },
		      (struct request){ .path = TEXT_NONE }));
	CHECK(passes((struct request_filter){ .path = "*" }, (struct request){ .path = 2 }));
}

TEST(a_model_is_its_whole_name)
{
	CHECK(passes((struct request_filter){ .model = "a" }, (struct request){ .model = 1 }));
	CHECK(!passes((struct request_filter){ .model = "b" }, (struct request){ .model = 1 }));
	CHECK(!passes((struct request_filter){ .model = "a" },
		      (struct request){ .model = TEXT_NONE }));
}

TEST(every_condition_must_hold)
{
	const struct request_filter filter = { .slower_than_ns = 5, .path = "/v1/*", .model = "a" };

	CHECK(passes(filter, (struct request){ .end_ns = 6, .path = 0, .model = 1 }));
	CHECK(!passes(filter, (struct request){ .end_ns = 5, .path = 0, .model = 1 }));
	CHECK(!passes(filter, (struct request){ .end_ns = 6, .path = 1, .model = 1 }));
	CHECK(!passes(filter, (struct request){ .end_ns = 6, .path = 0, .model = 0 }));
}

CHECK_MAIN()
