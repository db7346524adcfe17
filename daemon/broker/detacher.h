/* SPDX-License-Identifier: Apache-2.0 */
/* Detaching waits for the kernel: it is done in threads of its own, so that no request waits for
 * it. */
#pragma once

#include <stdbool.h>

#include "daemon/broker/kernel/attach.h"

/* Counts threads that detach, and those that load programs after that. */
struct detacher {
	unsigned running, loading;
};

/* Frees them. The detacher must live until detacher_wait(), also for detacher_end(). */
void detacher_take(struct detacher *d, struct detached *links);
/* Frees it; and then makes the programs of another one like it ready, for that time. 0: does not.
 */
void detacher_end(struct detacher *d, struct attachment *attachment, uint64_t ready_ns);
/* Whether something is not detached yet. */
bool detacher_is_busy(const struct detacher *d);
/* Whether programs will be ready, or may be. */
bool detacher_is_loading(const struct detacher *d);
void detacher_wait(const struct detacher *d);
