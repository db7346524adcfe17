/* SPDX-License-Identifier: Apache-2.0 */
/* What allocators gave out and took back within the window, as events that the Memory Profile page
 * reads. */
#pragma once

#include "daemon/export/xspace/writer.h"

/* Adds a line with the events to the open plane, if there are any. Errors are those of the xspace.
 */
int memory_write(struct writer *w);
