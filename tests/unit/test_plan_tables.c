/* SPDX-License-Identifier: Apache-2.0 */
/* Functions and names that tables of a file lead to, in its plan. */
#include <errno.h>
#include <sys/stat.h>

#include "daemon/plan/plan.h"
#include "daemon/plan/search.h"
#include "lib/base/macro.h"
#include "tests/unit/check.h"
#include "tests/unit/packed.h"
#include "tests/unit/table_file.h"

static const struct table_path path = { .function = TABLE_FILE_FUNCTION,
					.n_steps = 1,
					.at_least = TABLE_FILE_STRINGS };

static bool any(const char *s, uint32_t size)
{
	return s && size > 0;
}

static const struct probe_row rows[] = {
	{ .table = &path, .entry = TABLE_FILE_PLANNED, OPEN(OP) },
	{ .table = &path, .entry = TABLE_FILE_PLANNED + 1, OPEN(RUN) },
	{ .table = &path, .entry = TABLE_FILE_ENTRIES, CLOSE(RUN) },
};
static const struct pack pack = { .name = "test",
				  .rows = rows,
				  .n_rows = ARRAY_SIZE(rows),
				  .names = { .is_name = any, .list = &path } };

/* The table is exported as an object. */
static const struct probe_row object_rows[] = {
	{ .jump = "absent", OPEN(OP) },
	{ .word_of = TABLE_FILE_FUNCTION, .entry = TABLE_FILE_PLANNED, .instead = true, OPEN(RUN) },
	{ .word_of = TABLE_FILE_FUNCTION, .entry = TABLE_FILE_ENTRIES, .instead = true, OPEN(RUN) },
};
static const struct pack object_pack = { .name = "test",
					 .rows = object_rows,
					 .n_rows = ARRAY_SIZE(object_rows) };

static struct table_file f;

static int plan_of(const struct pack *of, size_t size, struct plan **ret)
{
	_cleanup_close_ int fd = elf_file_write(&f, size);
	const char *reason = NULL;
	int r = plan_new(fd, -1, set_of(of), ret, &reason);

	CHECK(r >= 0 || (reason && *reason));
	return r;
}

static int plan(size_t size, struct plan **ret)
{
	return plan_of(&pack, size, ret);
}

TEST(a_plan_has_the_functions_and_the_names_of_tables)
{
	_cleanup_(plan_unrefp) struct plan *p = NULL;

	table_file_make(&f);
	memset(f.elf.code + TABLE_FILE_ENTRY_AT, 0x55, 0x20);
	CHECK_EQ(plan(sizeof(f), &p), 0);
	/* Of the entry behind it no function's end is known, and the last one is none. */
	CHECK_EQ(p->n_sites, 1);
	CHECK_EQ(p->sites[0].spec, 0);
	CHECK_EQ(p->sites[0].source, SYMBOL_TABLE);
	CHECK_EQ(p->sites[0].offset,
		 offsetof(struct table_file, elf.code) + TABLE_FILE_ENTRY_AT + TABLE_FILE_PLANNED);
	CHECK_STR(p->sites[0].symbol, TABLE_FILE_FUNCTION ", entry 3");
	CHECK_EQ(p->names[0].n, TABLE_FILE_STRINGS);
	CHECK_STR(p->names[0].texts[1], "OP_B");
}

TEST(a_plan_has_the_function_that_a_word_of_an_object_leads_to_in_place_of_one_that_is_not_found)
{
	_cleanup_(plan_unrefp) struct plan *p = NULL, *none = NULL;

	table_file_make(&f);
	memset(f.elf.code + TABLE_FILE_ENTRY_AT, 0x55, 0x20);
	f.elf.dynamic[1].st_value = table_file_word(TABLE_FILE_TABLE);
	CHECK_EQ(plan_of(&object_pack, sizeof(f), &p), 0);
	CHECK_EQ(p->n_sites, 1);
	CHECK_EQ(p->sites[0].spec, 1);
	CHECK_EQ(p->sites[0].source, SYMBOL_WORD);
	CHECK_EQ(p->sites[0].function,
		 offsetof(struct table_file, elf.code) + TABLE_FILE_ENTRY_AT + TABLE_FILE_PLANNED);
	CHECK_STR(p->sites[0].symbol, TABLE_FILE_FUNCTION ", word 3");
	/* The word is no pointer: no row is left. */
	table_file_point(&f, TABLE_FILE_TABLE + TABLE_FILE_PLANNED, 0);
	CHECK_EQ(plan_of(&object_pack, sizeof(f), &none), 0);
	CHECK_EQ(none->n_sites, 0);
}

TEST(any_byte_may_be_wrong_and_the_plan_stays_within_the_file)
{
	static const uint8_t values[] = { 0x00, 0x7f, 0xff };

	for (size_t at = 0; at < sizeof(f); at++)
		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			_cleanup_(plan_unrefp) struct plan *p = NULL;

			table_file_make(&f);
			((uint8_t *)&f)[at] = values[i];
			if (plan(sizeof(f), &p) < 0)
				continue;
			CHECK(p->n_sites <= ARRAY_SIZE(rows) && p->names[0].n <= PLAN_NAMES_MAX);
			for (unsigned k = 0; k < p->n_sites; k++)
				CHECK(p->sites[k].offset < sizeof(f));
		}
}

CHECK_MAIN()
