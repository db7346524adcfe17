/* SPDX-License-Identifier: Apache-2.0 */
/* When records were lost. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* By time; they do not overlap. Zeros at first. */
struct losses {
	struct loss *list;
	uint32_t n, size;
};

/* Times may overlap, and come in any order. -ENOMEM. */
int losses_add(struct losses *l, uint64_t from, uint64_t to);
bool losses_within(const struct losses *l, uint64_t from, uint64_t to);
void losses_done(struct losses *l);
