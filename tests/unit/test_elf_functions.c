/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the functions at places of a file. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "lib/base/macro.h"
#include "lib/elf/functions.h"
#include "lib/elf/symbols.h"
#include "tests/unit/check.h"

static int note_place(const struct symbol_match *match, void *data)
{
	uint64_t *offset = data;

	*offset = match->offset + match->size / 2;
	return 0;
}

static int new_file(const void *bytes, size_t size)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	CHECK_EQ(pwrite(fd, bytes, size, 0), (ssize_t)size);
	return fd;
}

TEST(a_place_in_a_function_of_this_program_has_its_name)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), answers = -1,
			    questions = memfd_create("test", MFD_CLOEXEC);
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	_cleanup_free_ char(*names)[FUNCTION_NAME_SIZE] = NULL;
	struct symbol_pattern pattern = { "elf_symbols_match" };
	uint64_t places[] = { 1, 0 };
	const char *reason = NULL;

	answers = memfd_create("test", MFD_CLOEXEC);
	CHECK_EQ(elf_image_open(fd, &image, NULL), 0);
	CHECK_EQ(elf_symbols_match(image, &pattern, 1, note_place, &places[1], NULL), 0);
	CHECK(places[1] > 1);
	CHECK_EQ(functions_ask(questions, places, 2), 0);
	CHECK_EQ(functions_answer(questions, image, NULL, answers, &reason), 0);
	CHECK_EQ(functions_read(answers, 2, &names), 0);
	if (!names)
		return;
	CHECK_STR(names[0], "");
	CHECK_STR(names[1], "elf_symbols_match");
}

TEST(questions_out_of_order_or_of_odd_size_are_refused)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), answers = -1;
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	static const uint64_t backwards[] = { 5, 4 };
	static const size_t sizes[] = { 0, 7, 16 };
	const char *reason = NULL;

	answers = memfd_create("test", MFD_CLOEXEC);
	CHECK_EQ(elf_image_open(fd, &image, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		_cleanup_close_ int questions = new_file(backwards, sizes[i]);

		CHECK_EQ(functions_answer(questions, image, NULL, answers, &reason), -EINVAL);
	}
}

TEST(answers_of_any_bytes_are_names_or_refused)
{
	static const struct {
		const char *bytes;
		int result;
		const char *first;
	} cases[] = {
		{ "main\n\n", 0, "main" },
		{ "a\033[31mb\nc\n", 0, "a\\x1b[31mb" },
		{ "main\nno end", -EBADMSG, NULL },
		{ "main\n", -EBADMSG, NULL },
		{ "", -EBADMSG, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_close_ int answers = new_file(cases[i].bytes, strlen(cases[i].bytes));
		_cleanup_free_ char(*names)[FUNCTION_NAME_SIZE] = NULL;

		CHECK_EQ(functions_read(answers, 2, &names), cases[i].result);
		if (names)
			CHECK_STR(names[0], cases[i].first);
	}
}

TEST(more_answers_than_questions_are_refused)
{
	_cleanup_free_ char *bytes = calloc(3, FUNCTION_NAME_SIZE);
	_cleanup_close_ int answers = new_file(bytes, 2 * FUNCTION_NAME_SIZE + 1);
	char(*names)[FUNCTION_NAME_SIZE] = NULL;

	CHECK_EQ(functions_read(answers, 2, &names), -EBADMSG);
}

CHECK_MAIN()
