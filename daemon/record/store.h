/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the records of one capture in order of time: they arrive from several rings, each nearly in
 * order already, and are passed on as soon as nothing earlier can arrive. Memory grows in blocks
 * that records do not cross, up to a limit.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "include/record_types.h"

struct store;

/* A stream is what one ring delivers. */
int store_new(unsigned n_streams, uint64_t max_bytes, struct store **ret);
struct store *store_free(struct store *store);

/* The size in bytes that a record with this head must have to be kept; 0: of an unknown kind. */
size_t store_record_size(const struct record *record);

/* Checks a record's kind against its size and keeps it. -EBADMSG: malformed, not kept; -ENOBUFS:
 * the limit is reached. */
int store_add(struct store *store, unsigned stream, const void *record, size_t size);

/* Returns 0 or a negative errno to stop. */
typedef int (*store_fn)(const struct record *record, void *data);

/*
 * Passes on all records before that time, in order of time (and of thread ids at the same time),
 * and forgets them. Returns 0 or what fn returned; records that were not passed on then stay.
 */
int store_take(struct store *store, uint64_t before, store_fn fn, void *data);

/* Bytes that records use now. */
uint64_t store_bytes(const struct store *store);
