/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon logs when it starts. */
#pragma once

#include "daemon/front/listeners.h"

/* Logs the version in one line, and the listeners in another one. */
void announce(const struct listeners *listeners);
