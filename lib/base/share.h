/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of a resource that many users hold one of them may hold. Root has no share of its own:
 * an eighth of the resource is reserved for it, and it may hold all that is free.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* In place of a user: clients of whom the kernel knows no user have one share in common. */
#define SHARE_UNIDENTIFIED ((uid_t)-2)

struct share {
	uint64_t all;      /* what all users together may hold */
	uint64_t per_user; /* what one of them may hold */
};

enum share_verdict {
	SHARE_GRANTED,
	SHARE_OF_USER_HELD, /* the user holds its share */
	SHARE_ALL_HELD,     /* nothing is left but the reserve */
};

/* What is reserved for root: at least one, unless there is only one. */
uint64_t share_reserve(const struct share *share);
/*
 * Whether the user may hold `more` in addition. all: what every user holds, root as well; own: what
 * this one holds.
 */
enum share_verdict share_grant(const struct share *share, uid_t user, uint64_t all, uint64_t own,
			       uint64_t more);
