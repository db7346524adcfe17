/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of static probes, as the text of a file's note. */
#include "lib/elf/usdt.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = malloc(size + 1);
	struct usdt_argument arguments[USDT_ARGUMENTS_MAX];
	unsigned n;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	n = usdt_arguments_parse(text, arguments);
	for (unsigned i = 0; i < n; i++)
		if (arguments[i].symbol &&
		    arguments[i].symbol + arguments[i].symbol_length > text + size)
			abort();
	return 0;
}
