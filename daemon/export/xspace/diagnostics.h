/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace says of itself: errors, advice, what was captured in part, warnings. Readers show it
 * on Overview and Input Pipeline Analysis. */
#pragma once

#include "daemon/export/xspace/export.h"

struct writer;

/* The host's name, too; after everything else was written. 0, or as the writer's. */
int diagnostics_write(struct writer *w, const struct export_options *options);
