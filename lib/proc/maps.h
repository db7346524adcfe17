/* SPDX-License-Identifier: Apache-2.0 */
/* The text of /proc/PID/maps, a line at a time. The names in it are the process's own and prove
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
	const char *path; /* "" when there is none; " (deleted)" cut off */
	bool deleted;
};

/* Returns 0 to go on; another value ends the reading and becomes its result. */
typedef int (*maps_fn)(const struct maps_entry *entry, void *data);

/*
 * Reads the text behind fd to its end, at most 16 MiB of it, and calls fn for each line that is
 * one. -errno of read; -E2BIG when the text is longer.
 */
int maps_read(int fd, maps_fn fn, void *data);
