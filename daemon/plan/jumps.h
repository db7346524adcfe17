/* SPDX-License-Identifier: Apache-2.0 */
/* Functions without a symbol to which something exported leads: a function that ends in a jump to
 * them, or a word of an object. */
#pragma once

#include "daemon/plan/plan.h"

/* Adds them as far as the packs of the plan ask for them: all of a pack's, or none. Errors as
 * plan_new(). */
int jumps_add(struct plan *plan, const struct elf_image *image);
