/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzzers share: each is one file with a function that libFuzzer calls with any bytes. */
#pragma once

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/macro.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Called once, before the first input; a fuzzer may have it. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* A file with these bytes, which lies in memory only. The caller closes it. */
static inline int fuzz_file(const uint8_t *data, size_t size)
{
	int fd = memfd_create("input", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) < 0)
		abort();
	return fd;
}

/* The input as a reader: what it cannot give is 0. */
struct fuzz_input {
	const uint8_t *data;
	size_t size;
};

static inline uint64_t fuzz_take(struct fuzz_input *in, unsigned bytes)
{
	uint64_t value = 0;
	size_t n = MIN(in->size, (size_t)bytes);

	memcpy(&value, in->data, n);
	in->data += n;
	in->size -= n;
	return value;
}
