/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets a window begin in the middle of a capture. Programs tell some things once, when they first
 * see them, such as the name of an object, and later records refer to it; others they count from
 * there on. A lead-in keeps what later records refer to, out of those that came before; and feeds a
 * correlator what a capture that begins at that moment would have been fed. Pure.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "daemon/correlate/correlate.h"

struct lead_in;

/* max_bytes: of what is kept; the oldest goes beyond it. Twice as much is used for it. -ENOMEM. */
int lead_in_new(uint64_t max_bytes, struct lead_in **ret);
struct lead_in *lead_in_free(struct lead_in *l);
/* The targets, in the order of their numbers. -E2BIG. */
int lead_in_add_target(struct lead_in *l, const struct pack_set *set);
/* A record of before the window, in order of time; nothing is kept of those that no other refers
 * to. -ENOMEM. */
int lead_in_add(struct lead_in *l, const struct record *record);
/* Adds what another one has: a copy that goes on by itself. -ENOMEM. */
int lead_in_copy(const struct lead_in *l, struct lead_in **ret);
/* Whether something was dropped for max_bytes: names may be missing. */
bool lead_in_is_cut(const struct lead_in *l);
uint64_t lead_in_bytes(const struct lead_in *l);

/* What of the window's records is told otherwise: of which connections which messages were the
 * first. */
struct rebase;
int rebase_new(struct rebase **ret);
struct rebase *rebase_free(struct rebase *rebase);

/* Feeds what is kept, before the first record of the window; the lead-in is spent then. As
 * correlator_feed(). */
int lead_in_feed(struct lead_in *l, struct correlator *c);
/* Feeds a record of the window. */
int rebase_feed(struct rebase *rebase, struct correlator *c, const struct record *record);
