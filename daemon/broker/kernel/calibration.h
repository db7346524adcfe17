/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What probes cost on this machine, and whether this kernel's are safe on a 5-byte nop: measured
 * with the programs of a capture, in a child that runs a few small functions of our own and nothing
 * else.
 */
#pragma once

#include "daemon/broker/kernel/attach.h"
#include "daemon/broker/message.h"

/*
 * Takes some 0.2 s, and 0.1 s more per probe when these are perf events; on a machine that is too
 * busy it is given up after a second. Nothing is left attached, and the child is gone. Needs
 * CAP_BPF and CAP_PERFMON. ret_reason: what failed. Errors: -ETIMEDOUT, what fork(2) returns, and
 * those of attaching.
 */
int calibration_measure(enum attach_mode mode, struct program_cache *cache,
			struct broker_calibration *ret, char *ret_reason, size_t size);
