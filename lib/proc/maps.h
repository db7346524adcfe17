/* SPDX-License-Identifier: Apache-2.0 */
/* The text of /proc/PID/maps, a line at a time. The process chooses the names in it: they prove
 * nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct maps_entry {
	uint64_t start, end;
	bool executable;
	uint64_t offset;  /* in the file */
	uint64_t device;  /* major << 32 | minor */
	uint64_t inode;   /* 0: no file */
	const char *path; /* "" if there is none; without " (deleted)" */
	bool deleted;
};

/* Returns 0 to continue; another value ends the reading and becomes its result. */
typedef int (*maps_fn)(const struct maps_entry *entry, void *data);

/*
 * Reads the text behind fd to its end, at most 16 MiB of it, and calls fn for each valid line.
 * -errno of read; -E2BIG if the text is longer.
 */
int maps_read(int fd, maps_fn fn, void *data);
