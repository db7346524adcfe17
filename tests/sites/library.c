/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sites/library.h"

#include <Zydis/Zydis.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/macro.h"
#include "lib/elf/image.h"
#include "lib/elf/symbols.h"

#define FUNCTIONS_MAX 4096
#define CODE_MAX (64u << 10)

struct reader {
	struct library *library;
	const struct elf_image *image;
	const struct function *table;
	uint32_t mask;
};

static const struct function *find_function(const struct function *table, const char *name,
					    size_t length)
{
	for (; table && table->name; table++)
		if (strlen(table->name) == length && !memcmp(table->name, name, length))
			return table;
	return NULL;
}

static void name_first(const uint8_t *code, size_t size, char *ret, size_t ret_size)
{
	ZydisDecodedInstruction head;
	ZydisDecoder decoder;

	if (ZYAN_SUCCESS(
		    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) &&
	    ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, code, size, &head)))
		snprintf(ret, ret_size, "%s", ZydisMnemonicGetString(head.mnemonic));
}

static int on_symbol(const struct symbol_match *match, void *data)
{
	struct reader *reader = data;
	struct library *library = reader->library;
	struct chosen *chosen = &library->chosen[library->n];
	_cleanup_free_ uint8_t *code = NULL;
	size_t size, length = strcspn(match->name, ".");
	int r;

	/* A piece or a variant of a function; a local alias is its second name. */
	if (match->name[length] && strcmp(match->name + length, ".localalias"))
		return 0;
	if (library->n == FUNCTIONS_MAX)
		return -E2BIG;
	code = malloc(CODE_MAX);
	if (!code)
		return -ENOMEM;
	r = elf_image_read_code(reader->image, match->offset, code, MIN(match->size, CODE_MAX),
				&size);
	if (r < 0)
		return r;
	snprintf(chosen->name, sizeof(chosen->name), "%.*s", (int)length, match->name);
	chosen->function = find_function(reader->table, match->name, length);
	chosen->offset = match->offset;
	name_first(code, size, chosen->first, sizeof(chosen->first));
	site_choose(code, size, chosen->function ? chosen->function->mask : reader->mask,
		    &chosen->site);
	library->n++;
	return 0;
}

int library_open(const char *path, const char *pattern, const struct function *table, uint32_t mask,
		 struct library *ret)
{
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	struct symbol_pattern patterns[] = { { .text = pattern } };
	struct library library = { .fd = open(path, O_RDONLY | O_CLOEXEC) };
	struct reader reader = { .library = &library, .table = table, .mask = mask };
	const char *reason = "out of memory";
	int r = library.fd < 0 ? -errno : 0;

	if (r < 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(-r));
		return r;
	}
	library.chosen = calloc(FUNCTIONS_MAX, sizeof(library.chosen[0]));
	r = library.chosen ? elf_image_open(library.fd, &image, &reason) : -ENOMEM;
	reader.image = image;
	if (r >= 0)
		r = elf_symbols_match(image, patterns, ARRAY_SIZE(patterns), on_symbol, &reader,
				      &reason);
	if (r < 0) {
		fprintf(stderr, "%s: %s\n", path, reason);
		library_close(&library);
		return r;
	}
	*ret = library;
	return 0;
}

void library_close(struct library *library)
{
	free(library->chosen);
	safe_close(library->fd);
	*library = (struct library){ .fd = -1 };
}

int library_attach(const struct library *library, struct trace *trace, pid_t pid)
{
	uint64_t offsets[FUNCTIONS_MAX], cookies[FUNCTIONS_MAX];
	unsigned count = 0;

	for (unsigned i = 0; i < library->n; i++) {
		const struct chosen *c = &library->chosen[i];

		if (c->site.class == SITE_REFUSED)
			continue;
		offsets[count] = c->offset + c->site.offset;
		cookies[count++] = i | (uint64_t)c->site.stack_offset << 32;
	}
	return trace_attach(trace, pid, library->fd, offsets, cookies, count);
}
