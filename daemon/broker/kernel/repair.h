/* SPDX-License-Identifier: Apache-2.0 */
/* Removes breakpoints that the kernel has left in processes because the broker was killed while it
 * attached or detached probes (site_log.h). */
#pragma once

#include "daemon/broker/message.h"

/* directory: the state directory, borrowed for good; -1: nothing is known. What cannot be removed
 * is logged. Perf events are removed one after the other, in a thread: that may take half a minute.
 */
void repair_processes(enum attach_mode mode, int directory);
