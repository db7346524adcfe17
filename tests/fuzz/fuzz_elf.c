/* SPDX-License-Identifier: Apache-2.0 */
/* A file that a target maps, through everything that reads it: symbols, notes, classes, unwind
 * tables, code. */
#include "daemon/plan/packs.h"
#include "daemon/plan/plan.h"
#include "daemon/plan/search.h"
#include "daemon/plan/version.h"
#include "lib/elf/debug.h"
#include "lib/elf/image.h"
#include "lib/elf/lookup.h"
#include "lib/elf/rtti.h"
#include "lib/elf/unwind.h"
#include "lib/elf/unwind_rows.h"
#include "lib/elf/usdt.h"
#include "tests/fuzz/fuzz.h"

static int on_class(const struct rtti_class *class, void *data)
{
	uint64_t address;

	for (uint32_t i = 0; i < MIN(class->n_slots, 8u); i++)
		elf_rtti_slot(data, class, i, &address);
	return 0;
}

static int on_site(const struct usdt_site *site, void *data)
{
	return 0;
}

/* What it answers is what a reader accepts. */
static void read_unwind_rows(const struct elf_image *image)
{
	static const uint64_t words[] = { UINT64_MAX, 0x1000 };
	_cleanup_close_ int questions = fuzz_file((const uint8_t *)words, sizeof(words)),
			    answers = memfd_create("fuzz", MFD_CLOEXEC);
	struct unwind_rows rows = {};
	const char *reason;

	if (unwind_rows_answer(questions, image, answers, &reason) >= 0 &&
	    unwind_rows_read(answers, &rows) < 0)
		abort();
	unwind_rows_done(&rows);
}

static void read_image(const struct elf_image *image)
{
	_cleanup_(elf_image_freep) struct elf_image *embedded = NULL;
	_cleanup_(elf_rtti_freep) struct rtti *rtti = NULL;
	uint64_t start, size, address;
	char version[128];

	elf_debug_open_embedded(image, &embedded, NULL);
	elf_usdt_match(image, NULL, NULL, on_site, NULL, NULL);
	elf_lookup(image, "TF_Version", &address);
	elf_function_bounds(image, 0x1000, &start, &size);
	read_unwind_rows(image);
	for (unsigned i = 0; packs[i]; i++)
		version_read(image, packs[i], version, sizeof(version));
	if (elf_rtti_open(image, &rtti, NULL) >= 0)
		elf_rtti_find(rtti, NULL, false, on_class, rtti);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = fuzz_file(data, size);
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	_cleanup_(plan_unrefp) struct plan *plan = NULL;
	const char *reason;

	if (elf_image_open(fd, &image, &reason) < 0)
		return 0;
	read_image(image);
	plan_new(fd, -1, pack_set_get(1), &plan, &reason);
	return 0;
}
