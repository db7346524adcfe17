/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "lib/base/macro.h"
#include "lib/elf/table.h"
#include "tests/unit/check.h"
#include "tests/unit/table_file.h"

static const struct table_path functions = { .function = TABLE_FILE_FUNCTION,
					     .n_steps = 1,
					     .steps = { 0 },
					     .at_least = TABLE_FILE_ENTRIES };
static const struct table_path names = { .function = TABLE_FILE_FUNCTION,
					 .n_steps = 1,
					 .steps = { 0 },
					 .at_least = TABLE_FILE_STRINGS };

static struct table_file f;

/* What is found in a file of so many bytes. */
struct found {
	int functions, names;
	struct elf_table table, list;
	uint64_t entries[TABLE_FILE_ENTRIES + 1];
	char texts[TABLE_FILE_STRINGS + 1][TABLE_STRING_MAX + 1];
};

static struct found find_by(const struct table_path *of_functions,
			    const struct table_path *of_names, size_t size)
{
	_cleanup_close_ int fd = elf_file_write(&f, size);
	_cleanup_(elf_words_freep) struct elf_words *words = NULL;
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	struct found o = { .functions = -EINVAL, .names = -EINVAL };
	int r = elf_image_open(fd, &image, NULL);

	if (r >= 0)
		r = elf_words_open(image, &words, NULL);
	if (r < 0) {
		o.functions = o.names = r;
		return o;
	}
	o.functions = elf_table_of_functions(image, words, of_functions, &o.table);
	o.names = elf_table_of_strings(image, words, of_names, &o.list);
	CHECK(o.functions <= 0 && o.names <= 0);
	CHECK(o.table.n <= TABLE_ENTRIES_MAX && o.list.n <= TABLE_ENTRIES_MAX);
	for (uint32_t i = 0; i <= TABLE_FILE_ENTRIES; i++)
		elf_table_function(image, words, &o.table, i, &o.entries[i]);
	for (uint32_t i = 0; i <= TABLE_FILE_STRINGS; i++)
		elf_table_string(image, words, &o.list, i, o.texts[i]);
	return o;
}

static struct found find(void)
{
	return find_by(&functions, &names, sizeof(f));
}

TEST(entries_of_an_api_struct_and_of_a_list_of_names_are_found)
{
	struct found o;

	table_file_make(&f);
	o = find();
	CHECK_EQ(o.functions, 0);
	CHECK_EQ(o.table.address, table_file_word(TABLE_FILE_TABLE));
	CHECK_EQ(o.table.n, TABLE_FILE_ENTRIES);
	for (unsigned i = 0; i < TABLE_FILE_ENTRIES; i++)
		CHECK_EQ(o.entries[i], ELF_FILE_ADDRESS + TABLE_FILE_ENTRY_AT + i);
	CHECK_EQ(o.entries[TABLE_FILE_ENTRIES], 0);
	CHECK_EQ(o.names, 0);
	CHECK_EQ(o.list.n, TABLE_FILE_STRINGS);
	CHECK_STR(o.texts[0], "OP_A");
	CHECK_STR(o.texts[4], "OP_E");
	CHECK_STR(o.texts[5], "");
}

TEST(nothing_is_chosen_of_two_tables)
{
	struct found o;
	unsigned at;

	table_file_make(&f);
	for (unsigned i = 0; i < TABLE_FILE_ENTRIES; i++)
		table_file_point(&f, TABLE_FILE_OTHER + i,
				 ELF_FILE_ADDRESS + TABLE_FILE_ENTRY_AT + i);
	at = TABLE_FILE_GET_AT + 14;
	at += table_file_lea(&f, at, TABLE_FILE_OTHER);
	f.elf.code[at] = 0xc3;
	o = find();
	CHECK_EQ(o.functions, -ENOTUNIQ);
	CHECK_EQ(o.names, 0);
	/* One that is too short is none. */
	table_file_point(&f, TABLE_FILE_OTHER + 3, 0);
	o = find();
	CHECK_EQ(o.functions, 0);
	CHECK_EQ(o.table.address, table_file_word(TABLE_FILE_TABLE));
}

TEST(nothing_is_chosen_of_two_steps)
{
	table_file_make(&f);
	/* The exported function refers to the table, too, whose first word is another function. */
	f.elf.code[TABLE_FILE_BASE_AT + 7 +
		   table_file_lea(&f, TABLE_FILE_BASE_AT + 7, TABLE_FILE_TABLE)] = 0xc3;
	CHECK_EQ(find().functions, -ENOTUNIQ);
	table_file_point(&f, TABLE_FILE_TABLE, ELF_FILE_ADDRESS + TABLE_FILE_GET_AT);
	CHECK_EQ(find().functions, 0);
}

TEST(a_table_that_is_not_there_is_not_found)
{
	struct table_path path = functions;

	table_file_make(&f);
	path.at_least = TABLE_FILE_ENTRIES + 1;
	CHECK_EQ(find_by(&path, &names, sizeof(f)).functions, -ENOENT);
	path = functions;
	path.function = "get_api";
	CHECK_EQ(find_by(&path, &names, sizeof(f)).functions, -ENOENT);
	path = functions;
	path.steps[0] = 7;
	CHECK_EQ(find_by(&path, &names, sizeof(f)).functions, -ENOENT);
	/* A function whose end is not known is not decoded. */
	f.segments[4].p_type = PT_NULL;
	CHECK(find().functions < 0);
	table_file_make(&f);
	/* What is no instruction. */
	f.elf.code[TABLE_FILE_BASE_AT] = 0x06;
	CHECK_EQ(find().functions, -ENOENT);
	table_file_make(&f);
	/* Words that no relocation makes a pointer. */
	for (unsigned i = 0; i < TABLE_FILE_ENTRIES; i++) {
		table_file_point(&f, TABLE_FILE_TABLE + i, 0);
		f.words[TABLE_FILE_TABLE + i] = ELF_FILE_ADDRESS + TABLE_FILE_ENTRY_AT + i;
	}
	CHECK_EQ(find().functions, -ENOENT);
}

TEST(strings_that_are_none_end_a_list)
{
	table_file_make(&f);
	f.strings[8 * 3] = '\n';
	CHECK_EQ(find().names, -ENOENT);
	table_file_make(&f);
	f.strings[8 * 3] = 0;
	CHECK_EQ(find().names, -ENOENT);
	table_file_make(&f);
	table_file_point(&f, TABLE_FILE_NAMES + 2, ELF_FILE_ADDRESS);
	CHECK_EQ(find().names, -ENOENT);
	table_file_make(&f);
	table_file_point(&f, TABLE_FILE_NAMES + 2, 1ull << 40);
	CHECK_EQ(find().names, -ENOENT);
}

TEST(strings_may_be_distances_from_their_table)
{
	int32_t distances[TABLE_FILE_STRINGS];
	struct found o;

	table_file_make(&f);
	for (unsigned i = 0; i < TABLE_FILE_STRINGS; i++) {
		table_file_point(&f, TABLE_FILE_NAMES + i, 0);
		distances[i] = (int32_t)((int64_t)offsetof(struct table_file, strings) + 8 * i -
					 (int64_t)table_file_word(TABLE_FILE_NAMES));
	}
	memcpy(&f.words[TABLE_FILE_NAMES], distances, sizeof(distances));
	o = find();
	CHECK_EQ(o.names, 0);
	CHECK_EQ(o.list.n, TABLE_FILE_STRINGS);
	CHECK_STR(o.texts[4], "OP_E");
	CHECK_EQ(o.functions, 0);
}

TEST(any_byte_may_be_wrong_and_the_file_may_end_anywhere)
{
	static const uint8_t values[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };

	for (size_t at = 0; at < sizeof(f); at++)
		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			table_file_make(&f);
			((uint8_t *)&f)[at] = values[i];
			find();
		}
	table_file_make(&f);
	for (size_t size = 0; size < sizeof(f); size++)
		CHECK(find_by(&functions, &names, size).functions <= 0);
}

CHECK_MAIN()
