/* SPDX-License-Identifier: Apache-2.0 */
/* A file that a target's XLA wrote, or that the target put there. */
#include "daemon/export/modules.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct modules modules = {};

	modules_add(&modules, data, size);
	modules_add(&modules, data, size / 2);
	modules_done(&modules);
	return 0;
}
