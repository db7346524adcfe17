/*
 * The records of one capture, as they came out of the rings, until they are put in order of time. Memory grows in blocks that
 * records do not cross, up to a cap; what does not fit is counted.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "include/record_types.h"

struct store;

/* A stream is what came out of one ring: nearly in order already. */
int store_new(unsigned n_streams, uint64_t max_bytes, struct store **ret);
struct store *store_free(struct store *store);

/* Checks a record's kind against its size and keeps it. -EBADMSG: malformed, not kept; -ENOBUFS: the cap is reached, counted. */
int store_add(struct store *store, unsigned stream, const void *record, size_t size);

uint64_t store_records(const struct store *store);
uint64_t store_refused(const struct store *store);

/* All records in order of time; valid as long as the store, to which nothing may be added any more. The caller frees *ret. */
int store_sort(struct store *store, const struct record ***ret, uint64_t *ret_n);
