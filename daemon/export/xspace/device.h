/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations once more, in the form of a device: pages that know devices only (HLO Op Profile,
 * HLO Op Stats, Roofline Model) show them then. It presents a CPU as what it is not, so it is made
 * for who asks for it, and a warning says so.
 */
#pragma once

#include "daemon/export/xspace/writer.h"

/* Writes the plane, unless no operation is shown at the writer's level. Errors are those of the
 * xspace, and -ENOMEM. */
int device_write(struct writer *w);

/* What is to be said when the plane is asked for: what it is, or that there is none. The text is
 * static. */
const char *device_warning(const struct timeline *t, unsigned int level);
