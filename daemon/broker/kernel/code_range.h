/* SPDX-License-Identifier: Apache-2.0 */
/* Which parts of an ELF file are code, from its program headers alone: the broker reads nothing
 * else of a target's file. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CODE_RANGES_MAX 16

struct code_range {
	uint64_t start, end; /* file offsets */
	uint64_t address;    /* of start */
};

struct code_ranges {
	unsigned n, n_data;
	struct code_range range[CODE_RANGES_MAX];
	struct code_range data[CODE_RANGES_MAX]; /* what is mapped writable, and is not code */
};

/* -ENOEXEC: not a 64-bit ELF file with code; -errno of pread. Headers and ranges beyond the limits
 * are ignored. */
int code_ranges_read(int fd, struct code_ranges *ret);
bool code_ranges_contain(const struct code_ranges *ranges, uint64_t offset);
/*
 * Checks whether the note at that offset of the file is that of a static probe (USDT) whose
 * instruction and counter are at these offsets: 0. -EINVAL: it is not; -errno of pread. Reads only
 * the head of the note.
 */
int code_ranges_check_counter(const struct code_ranges *ranges, int fd, uint64_t note,
			      uint64_t instruction, uint64_t counter);
