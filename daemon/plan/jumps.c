/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/jumps.h"

#include <errno.h>

#include "daemon/plan/site.h"
#include "lib/base/macro.h"
#include "lib/elf/lookup.h"
#include "lib/elf/unwind.h"

/* Of the exported function: it does little else than jump. */
#define CODE_MAX 256

int jumps_find(const struct elf_image *image, const char *name, uint64_t *ret_function,
	       uint64_t *ret_size)
{
	uint64_t address, start, size, offset;
	uint8_t code[CODE_MAX];
	size_t n = 0;
	int64_t to;
	int r;

	r = elf_lookup(image, name, &address);
	if (r >= 0)
		r = elf_image_code_offset(image, address, &offset);
	if (r >= 0)
		r = elf_function_bounds(image, address, &start, &size);
	if (r >= 0)
		r = elf_image_read_code(image, offset, code,
					MIN(start + size - address, sizeof(code)), &n);
	if (r < 0)
		return r;
	if (start != address || !site_find_jump(code, n, &to))
		return -ENOENT;
	address += (uint64_t)to;
	r = elf_image_code_offset(image, address, ret_function);
	if (r >= 0)
		r = elf_function_bounds(image, address, &start, ret_size);
	return r < 0 || start == address ? r : -ENOENT;
}
