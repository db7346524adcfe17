/* SPDX-License-Identifier: Apache-2.0 */
/* How processes came to serve, a line for each: the part that lies in the window. Pure. */
#pragma once

#include "daemon/timeline/startup_track.h"

struct writer;

int startups_write(struct writer *w, const struct startups *s);
