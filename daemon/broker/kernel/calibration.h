/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What probes cost on this machine, and whether this kernel's probes are safe on a 5-byte nop:
 * measured with the programs of a capture, in a child process that runs only a few small functions
 * of the daemon's own.
 */
#pragma once

#include "daemon/broker/kernel/attach.h"
#include "daemon/broker/message.h"

/*
 * Takes about 0.2 s, and 0.1 s more per probe if probes are perf events; on a machine that is too
 * busy the measurement is abandoned after a second. Nothing is left attached, and the child has
 * ended. Needs CAP_BPF and CAP_PERFMON. ret_reason: what failed. Errors: -ETIMEDOUT, those of
 * fork(2), and those of attaching.
 */
int calibration_measure(enum attach_mode mode, struct program_cache *cache,
			struct broker_calibration *ret, char *ret_reason, size_t size);
