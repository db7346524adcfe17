/* Which parts of an ELF file are code, from its program headers alone: all that the broker reads of a target's file. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CODE_RANGES_MAX 16

struct code_ranges {
	unsigned n;
	struct {
		uint64_t start, end; /* file offsets */
	} range[CODE_RANGES_MAX];
};

/* -ENOEXEC: not a 64-bit ELF file with code; -errno of pread. Headers and ranges beyond the caps are not looked at. */
int code_ranges_read(int fd, struct code_ranges *ret);
bool code_ranges_contain(const struct code_ranges *ranges, uint64_t offset);
