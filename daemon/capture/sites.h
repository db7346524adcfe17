/* SPDX-License-Identifier: Apache-2.0 */
/* The sites of a target that a capture wants, by kind. */
#pragma once

#include "daemon/capture/prepare.h"

/* How many there are of each kind, in all files of the target. */
void sites_count(const struct prepared *p, const struct detail *detail, unsigned ret[KIND_COUNT]);
/* How many a capture has room for. */
unsigned sites_room(const struct forecast *forecast);
/*
 * The kind to leave out next where a target has more of them than there is room for, beside the
 * kinds that are left out already, a bit each: the one with the most, but not runs nor executors.
 * KIND_COUNT: none, they have room, or there is none to leave out.
 */
enum probe_kind sites_excess(const unsigned counts[KIND_COUNT], unsigned left_out, unsigned room);
/* The kinds that a capture of these targets leaves out for lack of room, a bit each. */
unsigned sites_left_out(const struct capture_plan *plan);
/* A sentence for people: a kind with n probes is left out. */
void sites_explain(enum probe_kind kind, unsigned n, unsigned room, char *ret_text,
		   size_t text_size);
/* Asks the broker for the wanted ones of a file, except those of refused kinds (a bit each), for
 * the target with this number in its capture. On failure text is the broker's. */
int sites_send(struct proxy *proxy, uint32_t capture, unsigned target, const struct prepared *p,
	       unsigned file, unsigned refused_kinds, const struct detail *detail, char *ret_text,
	       size_t text_size);
