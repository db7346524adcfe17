/* SPDX-License-Identifier: Apache-2.0 */
/* How processes came to serve, as a line of each: what of it lies in the window. Pure. */
#pragma once

#include "daemon/timeline/startup_track.h"

struct writer;

int startups_write(struct writer *w, const struct startups *s);
