/* SPDX-License-Identifier: Apache-2.0 */
/* What a row reads: in the cookie as far as that has room, else by a path. */
#include <string.h>

#include "daemon/capture/recorded_rows.h"
#include "daemon/plan/plan.h"
#include "lib/base/macro.h"
#include "tests/unit/check.h"
#include "tests/unit/packed.h"

static const struct table_path table = { .function = "get_api", .n_steps = 1, .at_least = 8 };

enum { REGISTERS, PLAIN, ONE_WORD, TWO_WORDS, TWO_STEPS, THREE_WORDS, VALUE2, TAG, OBJECT, TEXT };

static const struct probe_row rows[] = {
	[REGISTERS] = { .action = ACTION_ENTRY, .value = { ARGUMENT_1 }, .tag = { ARGUMENT_2 } },
	[ONE_WORD] = { .action = ACTION_READ,
		       .value = { ARGUMENT_1, 1, 24 },
		       .value2 = { ARGUMENT_2, 1, 4000 },
		       .tag = { ARGUMENT_3 } },
	[TWO_WORDS] = { .action = ACTION_READ, .value = { ARGUMENT_1, 2, 8 } },
	[TWO_STEPS] = { .action = ACTION_READ, .value = { ARGUMENT_1, 2, 8, { 16 } } },
	[THREE_WORDS] = { .action = ACTION_READ, .value = { ARGUMENT_1, 3, 8, { 0, 4095 } } },
	[VALUE2] = { .action = ACTION_READ,
		     .value = { ARGUMENT_1, 1, 72 },
		     .value2 = { ARGUMENT_2, 2, 8 } },
	[TAG] = { .action = ACTION_READ, .value = { ARGUMENT_1 }, .tag = { ARGUMENT_2, 1, 32 } },
	[OBJECT] = { .action = ACTION_OBJECT, .value = { ARGUMENT_1, 1, 32 } },
	[TEXT] = { .action = ACTION_TEXT_NUL, .value = { ARGUMENT_1, 2, 8 } },
	[PLAIN] = { .action = ACTION_PLAIN,
		    .value = { ARGUMENT_1 },
		    .tag = { ARGUMENT_2 },
		    .value2 = { ARGUMENT_4 },
		    .group = PLAIN_FREE },
};
static const struct pack pack = { .name = "test", .rows = rows, .n_rows = ARRAY_SIZE(rows) };

static uint64_t cookie_of(unsigned spec, struct record_path *ret)
{
	struct plan plan = { .packs = set_of(&pack) };
	struct plan_site site = { .spec = spec };
	uint64_t cookie;

	for (unsigned i = 0; i < SITE_ARGUMENTS; i++)
		site.site.argument_register[i] = (uint8_t)(REGISTER_R8 + i);
	cookie = plan_cookie(&plan, &site, 3);
	CHECK_EQ(COOKIE_SITE(cookie), spec);
	CHECK_EQ(COOKIE_TARGET(cookie), 3);
	CHECK_EQ(COOKIE_ACTION(cookie), rows[spec].action);
	CHECK_EQ(COOKIE_VALUE(cookie), REGISTER_R8);
	CHECK_EQ(plan_read_path(&plan, &site, ret), !!(cookie & COOKIE_PATH));
	return cookie;
}

TEST(what_a_cookie_has_room_for_is_in_it)
{
	struct record_path path;
	uint64_t cookie = cookie_of(REGISTERS, &path);

	CHECK(!(cookie & (COOKIE_PATH | COOKIE_DEREF | COOKIE_DEREF2 | COOKIE_DEREF_AGAIN)));
	CHECK_EQ(COOKIE_TAG(cookie), REGISTER_R9);
	cookie = cookie_of(ONE_WORD, &path);
	CHECK(!(cookie & (COOKIE_PATH | COOKIE_DEREF_AGAIN)));
	CHECK(cookie & COOKIE_DEREF && cookie & COOKIE_DEREF2);
	CHECK_EQ(COOKIE_OFFSET(cookie), 24);
	CHECK_EQ(COOKIE_OFFSET2(cookie), 4000);
	CHECK_EQ(COOKIE_TAG(cookie), REGISTER_R10);
	cookie = cookie_of(TWO_WORDS, &path);
	CHECK(!(cookie & COOKIE_PATH) && cookie & COOKIE_DEREF_AGAIN);
	cookie = cookie_of(PLAIN, &path);
	CHECK(!(cookie & (COOKIE_PATH | COOKIE_DEREF | COOKIE_DEREF2 | COOKIE_RETURN)));
	CHECK_EQ(COOKIE_VALUE2(cookie), REGISTER_R11);
	CHECK_EQ(COOKIE_OFFSET2(cookie), PLAIN_FREE);
}

TEST(what_it_has_no_room_for_is_in_a_path)
{
	static const struct record_path expected[] = {
		[TWO_STEPS] = { .n_steps = { 2 }, .steps = { { 8, 16 } } },
		[THREE_WORDS] = { .n_steps = { 3 }, .steps = { { 8, 0, 4095 } } },
		[VALUE2] = { .n_steps = { 1, 0, 2 }, .steps = { { 72 }, {}, { 8, 0 } } },
		[TAG] = { .n_steps = { 0, 1 }, .steps = { {}, { 32 } } },
		[OBJECT] = { .n_steps = { 1 }, .steps = { { 32 } } },
		[TEXT] = { .n_steps = { 2 }, .steps = { { 8, 0 } } },
	};

	for (unsigned spec = TWO_STEPS; spec < ARRAY_SIZE(rows); spec++) {
		struct record_path path;
		uint64_t cookie = cookie_of(spec, &path);

		CHECK(cookie & COOKIE_PATH);
		/* The broker puts the number there. */
		CHECK_EQ(COOKIE_OFFSET(cookie), 0);
		CHECK(!memcmp(&path, &expected[spec], sizeof(path)));
	}
}

TEST(a_row_of_a_table_is_recorded_by_its_function_and_its_entry)
{
	const struct probe_row by_table = { .table = &table, .entry = 9 },
			       by_class = { .class_name = "3Run", .slot = 2 };
	uint32_t slot;

	CHECK_STR(recorded_row_place(&by_table, &slot), "get_api");
	CHECK_EQ(slot, 10);
	CHECK_STR(recorded_row_place(&by_class, &slot), "3Run");
	CHECK_EQ(slot, 3);
}

static const char *whole(const char *symbol, uint32_t *ret_size)
{
	*ret_size = (uint32_t)strlen(symbol);
	return symbol;
}

TEST(the_number_of_its_site_is_in_the_cookie_of_an_operation_that_its_symbol_names)
{
	static const struct probe_row named[] = {
		{ OPEN(OP), .action = ACTION_ENTRY },
		{ POINT(OP), .action = ACTION_ENTRY },
	};
	static const struct pack by_symbol = { .name = "test",
					       .rows = named,
					       .n_rows = ARRAY_SIZE(named),
					       .names = { .in_symbol = whole } };
	struct plan_site sites[PLAN_SITES_MAX] = {};
	const struct plan plan = { .packs = set_of(&by_symbol), .sites = sites };

	sites[7].spec = 1;
	CHECK_EQ(COOKIE_OFFSET(plan_cookie(&plan, &sites[7], 3)), 0);
	CHECK_EQ(COOKIE_OFFSET(plan_cookie(&plan, &sites[8], 3)), 8);
	CHECK_EQ(COOKIE_OFFSET(plan_cookie(&plan, &sites[PLAN_SITES_MAX - 1], 3)),
		 PLAN_SITES_MAX - 1);
	CHECK_EQ(COOKIE_VALUE(plan_cookie(&plan, &sites[8], 3)), REGISTER_NONE);
}

TEST(no_row_of_a_release_goes_through_words_at_a_mere_entry)
{
	for (unsigned i = 0; packs[i]; i++)
		for (unsigned k = 0; k < packs[i]->n_rows; k++) {
			const struct probe_row *row = &packs[i]->rows[k];

			CHECK(row->action != ACTION_ENTRY ||
			      (!row->value.deref && !row->value2.deref && !row->tag.deref));
		}
}

CHECK_MAIN()
