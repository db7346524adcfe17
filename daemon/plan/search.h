/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the functions of a plan in a file. */
#pragma once

#include "daemon/plan/plan.h"

/*
 * Plans the probes of a pack in an ELF file, which is read through its descriptor. debug: of its
 * separate debug file (lib/elf/debug.h), -1: none. ret_reason is a constant string. Errors as in
 * lib/elf/image.h. A file without any of the functions is not an error: the plan is then empty.
 */
int plan_new(int fd, int debug, const struct pack_set *set, struct plan **ret,
	     const char **ret_reason);

/* Adds what is searched for each time, and is in no stored plan: static probes, entries of tables,
 * targets of jumps, and functions of objects. Puts all sites in order. Errors as plan_new(). */
int plan_complete(struct plan *plan, const struct elf_image *image, const char **ret_reason);
