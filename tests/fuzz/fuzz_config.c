/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file. */
#include <stdio.h>

#include "daemon/config/config.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = fuzz_file(data, size);
	char path[64], reason[600] = "";
	char *argv[] = { "tfprofd", "--config", path, NULL };
	struct config *config = NULL;
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = config_new(3, argv, &config, reason, sizeof(reason));
	if (r < 0 && !*reason)
		abort();
	config_free(config);
	return 0;
}
