/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the code of a function: a site that is chosen lies at an instruction's beginning. */
#include <Zydis/Zydis.h>

#include "daemon/plan/site.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { .data = data, .size = size };
	uint64_t arguments = fuzz_take(&in, 1) & SITE_ALL_ARGUMENTS;
	ZydisDecodedInstruction head;
	ZydisDecoder decoder;
	struct site site;
	size_t at = 0;

	if (site_choose(in.data, in.size, arguments, &site) == SITE_REFUSED)
		return 0;
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	while (at < site.offset) {
		if (ZYAN_FAILED(ZydisDecoderDecodeInstruction(&decoder, NULL, in.data + at,
							      in.size - at, &head)))
			abort();
		at += head.length;
	}
	if (at != site.offset || site.offset + site.length > in.size)
		abort();
	return 0;
}
