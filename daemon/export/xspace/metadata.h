/* SPDX-License-Identifier: Apache-2.0 */
/* The plane in which readers find XLA's modules. */
#pragma once

#include "daemon/export/modules.h"

struct writer;

/* Writes nothing if there are no modules; NULL: none. */
int metadata_write(struct writer *w, const struct modules *m);
