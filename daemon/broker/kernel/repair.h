/* SPDX-License-Identifier: Apache-2.0 */
/* Removes breakpoints that the kernel has left in processes because the broker was killed while it
 * attached or detached probes (site_log.h). */
#pragma once

#include "daemon/broker/message.h"

/* Starts a thread: the kernel needs about 5 ms for each site, and for perf events up to half a
 * minute. directory: the state directory, borrowed for good; -1: nothing is known. predecessor:
 * pidfd of a broker that must end first; -1: it has ended; owned. What cannot be removed
 * is logged. */
void repair_processes(enum attach_mode mode, int directory, int predecessor);
