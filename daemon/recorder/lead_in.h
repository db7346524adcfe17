/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets a window begin in the middle of a capture. Programs report some things once, when they first
 * see them, such as the name of an object, and later records refer to it; others are counted from
 * then on. A lead-in keeps earlier records that later ones refer to, for a sink that is to get what
 * a capture that begins at that moment would have received. Pure.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "daemon/plan/packs.h"
#include "include/record_types.h"

struct lead_in;

/* max_bytes: of what is kept; beyond that the oldest is dropped. Uses up to twice as much memory.
 * -ENOMEM. */
int lead_in_new(uint64_t max_bytes, struct lead_in **ret);
struct lead_in *lead_in_free(struct lead_in *l);
/* The targets, in the order of their numbers. -E2BIG. */
int lead_in_add_target(struct lead_in *l, const struct pack_set *set);
/* A record from before the window, in order of time; it is kept only if others may refer to it.
 * -ENOMEM. */
int lead_in_add(struct lead_in *l, const struct record *record);
/* An independent copy. -ENOMEM. */
int lead_in_copy(const struct lead_in *l, struct lead_in **ret);
/* Whether something was dropped because of max_bytes: names may be missing. */
bool lead_in_is_incomplete(const struct lead_in *l);
uint64_t lead_in_bytes(const struct lead_in *l);

/* Renumbers the window's HTTP/1 messages: which messages were the first of which connections. */
struct rebase;
int rebase_new(struct rebase **ret);
struct rebase *rebase_free(struct rebase *rebase);

/* Returns 0 or a negative errno to stop. */
typedef int (*lead_in_fn)(const struct record *record, void *data);

/* Passes on what is kept, before the first record of the window; this uses up the lead-in. -ENOMEM,
 * or what fn returned. */
int lead_in_read(struct lead_in *l, lead_in_fn fn, void *data);
/* A record of the window as it is to be fed: the record itself, or *copy. NULL: out of memory. */
const struct record *rebase_record(struct rebase *rebase, const struct record *record,
				   struct record_headers *copy);
