/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lib/elf finds in a file, as JSON on one line, for tests:
 *   elf_sources classes FILE NAME    the class and those derived from it, with the functions at
 *                                    their slots
 *   elf_sources symbols FILE PATTERN [DEBUG-DIRECTORY]
 *   elf_sources bounds FILE ADDRESS  (hexadecimal)
 *   elf_sources functions|strings FILE FUNCTION AT-LEAST [STEP…]    a table (lib/elf/table.h)
 * Ends with 1 and "error" in the JSON if the file is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "lib/base/macro.h"
#include "lib/elf/debug.h"
#include "lib/elf/rtti.h"
#include "lib/elf/symbols.h"
#include "lib/elf/table.h"
#include "lib/elf/unwind.h"

struct output {
	struct rtti *rtti;
	size_t n;
};

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static int fail(int r, const char *reason)
{
	printf("{\"error\": \"%s\", \"errno\": %d}\n", reason ? reason : "", -r);
	return 1;
}

static int print_class(const struct rtti_class *class, void *data)
{
	struct output *output = data;

	printf("%s{\"name\": \"%s\", \"typeinfo\": %" PRIu64 ", \"vtable\": %" PRIu64
	       ", \"slots\": [",
	       output->n++ ? ", " : "", class->name, class->typeinfo, class->vtable);
	for (uint32_t i = 0; i < class->n_slots; i++) {
		uint64_t address = 0;

		elf_rtti_slot(output->rtti, class, i, &address);
		printf("%s%" PRIu64, i ? ", " : "", address);
	}
	printf("]}");
	return 0;
}

static int list_classes(const struct elf_image *image, const char *name)
{
	_cleanup_(elf_rtti_freep) struct rtti *rtti = NULL;
	struct output output = { 0 };
	double begin = now(), opened;
	const char *reason = NULL;
	struct rusage usage;
	int r;

	r = elf_rtti_open(image, &rtti, &reason);
	if (r < 0)
		return fail(r, reason);
	opened = now();
	output.rtti = rtti;
	printf("{\"classes\": %zu, \"itself\": [", elf_rtti_count(rtti));
	r = elf_rtti_find(rtti, name, false, print_class, &output);
	output.n = 0;
	printf("], \"derived\": [");
	if (r == 0)
		r = elf_rtti_find(rtti, name, true, print_class, &output);
	getrusage(RUSAGE_SELF, &usage);
	printf("], \"result\": %d, \"open_s\": %.4f, \"find_s\": %.4f, \"memory_kib\": %ld}\n", r,
	       opened - begin, now() - opened, usage.ru_maxrss);
	return r < 0;
}

static int print_symbol(const struct symbol_match *match, void *data)
{
	struct output *output = data;

	printf("%s{\"name\": \"%s\", \"address\": %" PRIu64 ", \"size\": %" PRIu64
	       ", \"offset\": %" PRIu64 ", \"source\": \"%s\"}",
	       output->n++ ? ", " : "", match->name, match->address, match->size, match->offset,
	       symbol_source_name(match->source));
	return 0;
}

static int list_symbols(const struct elf_image *image, const char *pattern,
			const char *debug_directory)
{
	_cleanup_(elf_image_freep) struct elf_image *debug_file = NULL;
	_cleanup_close_ int fd = -1;
	const char *reason = NULL;
	double begin = now();
	struct output output = { 0 };
	int r;

	if (debug_directory) {
		r = elf_debug_find(elf_image_build_id(image), debug_directory, &fd);
		if (r == 0)
			r = elf_debug_open(image, fd, &debug_file, &reason);
		if (r < 0)
			return fail(r, reason);
	}
	printf("{\"symbols\": [");
	r = elf_symbols_match_debug(image, debug_file, &(struct symbol_pattern){ pattern }, 1,
				    print_symbol, &output, &reason);
	printf("], \"result\": %d, \"reason\": \"%s\", \"seconds\": %.4f}\n", r,
	       reason ? reason : "", now() - begin);
	return r < 0;
}

static int print_bounds(const struct elf_image *image, const char *address)
{
	uint64_t start, size;
	int r = elf_function_bounds(image, strtoull(address, NULL, 16), &start, &size);

	if (r < 0)
		return fail(r, "no bounds");
	printf("{\"start\": %" PRIu64 ", \"size\": %" PRIu64 "}\n", start, size);
	return 0;
}

static int print_table(const struct elf_image *image, bool of_strings, int argc, char **argv)
{
	_cleanup_(elf_words_freep) struct elf_words *words = NULL;
	struct table_path path = { .function = argv[3], .at_least = (uint16_t)atoi(argv[4]) };
	char text[TABLE_STRING_MAX + 1];
	const char *reason = NULL;
	struct elf_table table;
	int r = elf_words_open(image, &words, &reason);

	for (int i = 5; i < argc && path.n_steps < TABLE_STEPS_MAX; i++)
		path.steps[path.n_steps++] = (uint8_t)atoi(argv[i]);
	if (r >= 0)
		r = of_strings ? elf_table_of_strings(image, words, &path, &table)
			       : elf_table_of_functions(image, words, &path, &table);
	if (r < 0)
		return fail(r, reason ?: "no table");
	printf("{\"address\": %" PRIu64 ", \"entries\": [", table.address);
	for (uint32_t i = 0; i < table.n; i++) {
		uint64_t address = 0;

		if (of_strings && elf_table_string(image, words, &table, i, text) >= 0)
			printf("%s\"%s\"", i ? ", " : "", text);
		else if (elf_table_function(image, words, &table, i, &address) >= 0 || !of_strings)
			printf("%s%" PRIu64, i ? ", " : "", address);
	}
	printf("]}\n");
	return 0;
}

int main(int argc, char **argv)
{
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	_cleanup_close_ int fd = -1;
	const char *reason = NULL;
	int r;

	if (argc < 4) {
		fprintf(stderr,
			"usage: elf_sources classes|symbols|bounds|functions|strings FILE NAME|PATTERN|ADDRESS|FUNCTION …\n");
		return 2;
	}
	fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(-errno, "the file cannot be opened");
	r = elf_image_open(fd, &image, &reason);
	if (r < 0)
		return fail(r, reason);
	if (!strcmp(argv[1], "classes"))
		return list_classes(image, argv[3]);
	if (!strcmp(argv[1], "symbols"))
		return list_symbols(image, argv[3], argc > 4 ? argv[4] : NULL);
	if (argc > 4)
		return print_table(image, !strcmp(argv[1], "strings"), argc, argv);
	return print_bounds(image, argv[3]);
}
