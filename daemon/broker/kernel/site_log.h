/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sites of a capture's probes, in a file of the state directory as long as they may be
 * attached. A kernel that removes breakpoints for a process that is killed meanwhile stops halfway
 * ("uprobe: failed to unregister, leaking uprobe", seen with Linux 6.18): the program goes on, but
 * traps at each of them. The next broker finds the file and removes them (repair.h).
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#define SITE_LOG_PREFIX "attached-"
/* Of an earlier broker. */
#define SITE_LOG_LEFT "left-"
/* In one record. */
#define SITE_LOG_SITES_MAX 16384u

struct site_log;

/* directory: the state directory, borrowed; -1: NULL, without a file. -ENOMEM, or an error of
 * openat(2). */
int site_log_new(int directory, struct site_log **ret);
struct site_log *site_log_ref(struct site_log *log);
/* The last reference removes the file: nothing is attached any more. NULL is accepted. */
struct site_log *site_log_unref(struct site_log *log);
/* Before the probes are attached: offsets in the file behind a descriptor, and those of the
 * counters of each (0: none). A failure is logged. */
void site_log_add(struct site_log *log, pid_t pid, int file, const uint64_t *offsets,
		  const uint64_t *semaphores, unsigned n);

struct site_record {
	pid_t pid;
	uint64_t device, inode; /* of fstat(2) */
	unsigned n;
	const uint64_t *offsets, *semaphores;
};

/* Before the first capture: the files that are there are an earlier broker's. */
void site_log_claim(int directory);
/* Calls the function for each record of these files, and removes them. */
void site_log_take(int directory, void (*found)(const struct site_record *record, void *data),
		   void *data);
