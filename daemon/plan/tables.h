/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan has from the tables of its file (lib/elf/table.h): functions of API structs, and
 * lists of names. */
#pragma once

#include "daemon/plan/plan.h"

/* Adds both, as far as the packs of the plan ask for them and the file has them; rows whose
 * function was found otherwise are left out. Errors as plan_new(). */
int tables_add(struct plan *plan, const struct elf_image *image, const char **ret_reason);
