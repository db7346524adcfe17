/* SPDX-License-Identifier: Apache-2.0 */
/* Where a target has an interpreter of scripts, for the samples of its stacks: by the file's plan,
 * and by the layout in the broker's own pack. */
#pragma once

#include "daemon/broker/site_check.h"

/*
 * Adds the interpreter whose evaluator is at the site, for the target with this index in the
 * capture. One whose objects lie outside of the file's code and data is left out, as is each one
 * where the kernel has no program for it: stacks then have the evaluator itself. -errno of the
 * kernel.
 */
int interpreter_add(const struct mapped_file *file, const struct plan_site *site,
		    struct attachment *attachment, unsigned target);
