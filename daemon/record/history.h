/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last records of a capture without an end, in order of time: in blocks, the oldest of which
 * are dropped when there are too many bytes or when they are too old. A view holds the blocks of
 * one moment, for another thread to read.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "include/record_types.h"

struct history;
struct history_view;

/* Receives dropped records, in order of time. Returns 0 or a negative errno. */
typedef int (*history_fn)(const struct record *record, void *data);

/* max_bytes: of all blocks that are not held by a view alone; at least two are kept. last_ns: older
 * records may be dropped. gone may be NULL. -ENOMEM. */
int history_new(uint64_t max_bytes, uint64_t last_ns, history_fn gone, void *data,
		struct history **ret);
/* Its views stay valid. */
struct history *history_free(struct history *history);

/* Adds a copy of the record, which is not earlier than those before it. -EINVAL: of an unknown
 * kind; -ENOMEM, or what gone() returned. */
int history_add(struct history *history, const struct record *record);
/* The time of the oldest record; UINT64_MAX: there is none. */
uint64_t history_oldest(const struct history *history);
uint64_t history_bytes(const struct history *history);

/* -ENOMEM. */
int history_view_new(const struct history *history, struct history_view **ret);
/* Calls fn for every record. Returns 0, or the first result of fn that is not 0. */
int history_view_read(const struct history_view *view, history_fn fn, void *data);
struct history_view *history_view_free(struct history_view *view);
