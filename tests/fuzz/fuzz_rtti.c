/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The classes of a file that is valid but for a few words: the input is a list of positions and of
 * what is written there. So the search for classes is reached with each input.
 */
#include <stdio.h>

#include "lib/elf/image.h"
#include "lib/elf/rtti.h"
#include "tests/fuzz/fuzz.h"

#define BASE "build/fixtures/libtensorflow_framework.so.2"
#define CHANGES_MAX 64

static uint8_t *base, *changed;
static size_t base_size;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	FILE *f = fopen(BASE, "rb");
	size_t allocated = 4 << 20;

	base = malloc(allocated);
	changed = malloc(allocated);
	if (!f || !base || !changed) {
		fprintf(stderr, "cannot read " BASE ": run make fixtures\n");
		abort();
	}
	base_size = fread(base, 1, allocated, f);
	fclose(f);
	return 0;
}

static int on_class(const struct rtti_class *class, void *data)
{
	uint64_t address;

	if (!class->typeinfo || strlen(class->name) > RTTI_NAME_MAX ||
	    class->n_slots > RTTI_SLOTS_MAX)
		abort();
	for (uint32_t i = 0; i <= MIN(class->n_slots, 16u); i++)
		if (elf_rtti_slot(data, class, i, &address) == 0 && !address)
			abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { .data = data, .size = size };
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	_cleanup_(elf_rtti_freep) struct rtti *rtti = NULL;
	_cleanup_close_ int fd = -1;
	const char *reason = NULL;

	memcpy(changed, base, base_size);
	for (unsigned i = 0; in.size && i < CHANGES_MAX; i++) {
		size_t at = fuzz_take(&in, 3) * 4 % (base_size - 8);
		unsigned bytes = 1u << (fuzz_take(&in, 1) & 3);
		uint64_t value = fuzz_take(&in, bytes);

		memcpy(changed + at, &value, bytes);
	}
	fd = fuzz_file(changed, base_size);
	if (elf_image_open(fd, &image, &reason) < 0)
		return 0;
	if (elf_rtti_open(image, &rtti, &reason) < 0)
		return 0;
	elf_rtti_find(rtti, NULL, false, on_class, rtti);
	elf_rtti_find(rtti, "St9exception", true, on_class, rtti);
	return 0;
}
