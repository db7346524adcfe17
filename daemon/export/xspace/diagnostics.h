/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostics of a trace: errors, advice, what was captured in part, warnings. Readers show them on
 * Overview and Input Pipeline Analysis. */
#pragma once

#include "daemon/export/xspace/export.h"

struct writer;

/* Also writes the host's name; comes after everything else. Errors are those of the xspace. */
int diagnostics_write(struct writer *w, const struct export_options *options);
