/* SPDX-License-Identifier: Apache-2.0 */
/* The text of /proc/PID/maps, whose names the process chooses. */
#include "lib/proc/maps.h"
#include "tests/fuzz/fuzz.h"

static int on_mapping(const struct maps_entry *entry, void *data)
{
	return strlen(entry->path) > 16u << 20;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = fuzz_file(data, size);

	if (maps_read(fd, on_mapping, NULL) > 0)
		abort();
	return 0;
}
