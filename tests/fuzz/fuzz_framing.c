/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The bytes that pass through a connection, as the programs in the kernel read them. */
#include "tests/fuzz/connection.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { .data = data, .size = size };
	uint64_t now = START;

	if (!connection_begin())
		return 0;
	while (in.size) {
		uint8_t how = (uint8_t)fuzz_take(&in, 1);
		size_t n = MIN(in.size, fuzz_take(&in, how & 128 ? 2 : 1));

		n = MIN(n, in.size);
		if (!n)
			continue;
		pass(how, in.data, n, now += CALL_NS);
		in.data += n;
		in.size -= n;
	}
	timeline_free(connection_end(now + CALL_NS));
	return 0;
}
