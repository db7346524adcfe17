/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations once more, in the form of a device, for pages that only know devices (HLO Op
 * Profile, HLO Op Stats, Roofline Model). It presents a CPU as a device, so it is made only on
 * request, and with a warning.
 */
#pragma once

#include "daemon/export/xspace/writer.h"

/* Writes the plane, unless no operation is shown at the writer's level. Errors are those of the
 * xspace, and -ENOMEM. */
int device_write(struct writer *w);

/* The warning if the plane is requested: what it is, or that there is none. The text is static. */
const char *device_warning(const struct timeline *t, unsigned int level);
