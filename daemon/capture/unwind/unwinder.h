/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks whose callers frame pointers do not show: each is followed once more, by unwind rows, in
 * the copy of its top that came with it, and passed on with addresses only. The copies stay in
 * memory, for as long as rows of code that is seen for the first time are read.
 */
#pragma once

#include "daemon/proxy/proxy.h"
#include "include/record_types.h"

struct unwinder;

struct unwinder_counts {
	uint64_t stacks;   /* that were followed by rows */
	uint64_t cut;      /* of these: the outermost functions are missing */
	uint64_t plain;    /* no copy came with them: they have what frame pointers show */
	uint64_t unpaired; /* copies without a stack */
};

/* A stack with its addresses. */
typedef void (*unwinder_fn)(const struct record *record, size_t size, void *data);

/* The proxy is borrowed. -ENOMEM. */
int unwinder_new(struct proxy *proxy, unwinder_fn fn, void *data, struct unwinder **ret);
struct unwinder *unwinder_free(struct unwinder *u);
void unwinder_set_target(struct unwinder *u, unsigned target, pid_t pid);

/* Takes a RECORD_STACK_COPY or a RECORD_STACK as it comes. False: it is malformed. */
bool unwinder_add(struct unwinder *u, const void *record, size_t size);
/* Reads rows, and passes on what was waiting for them, or has waited too long. */
void unwinder_work(struct unwinder *u);
/* Passes on everything, without the rows that are missing. */
void unwinder_finish(struct unwinder *u);
/* The time of the earliest stack that waits; UINT64_MAX: none does. */
uint64_t unwinder_oldest(const struct unwinder *u);
void unwinder_count(const struct unwinder *u, struct unwinder_counts *ret);
