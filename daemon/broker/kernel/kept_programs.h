/* SPDX-License-Identifier: Apache-2.0 */
/* The programs as libbpf prepared them for loading: later captures load the same instructions and
 * maps at once, without libbpf. */
#pragma once

#include <bpf/libbpf.h>
#include <stdbool.h>
#include <stddef.h>

#include "daemon/broker/kernel/programs.h"

struct kept_programs;

/* -ENOMEM. */
int kept_programs_new(struct kept_programs **ret);
struct kept_programs *kept_programs_free(struct kept_programs *kept);
void kept_programs_forget(struct kept_programs *kept);

/*
 * Keeps what was loaded, for the attach type and with the programs of these kinds; secret: where
 * the secret is in the constants. On failure nothing is kept.
 */
void kept_programs_fill(struct kept_programs *kept, const struct bpf_object *object,
			int attach_type, unsigned kinds, size_t secret);
/* Whether the kept programs can be used; those of more kinds serve for fewer. */
bool kept_programs_serve(const struct kept_programs *kept, int attach_type, unsigned kinds);
/* Loads them, with a new secret. Returns what bpf(2) returns; -ENOMEM. */
int kept_programs_load(struct kept_programs *kept, unsigned kinds, struct programs *ret);
