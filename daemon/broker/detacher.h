/* SPDX-License-Identifier: Apache-2.0 */
/* Detaching waits for the kernel: it is done in threads of its own, so that no request waits for
 * it. */
#pragma once

#include <stdbool.h>

#include "daemon/broker/kernel/attach.h"

/* Counts threads that detach. */
struct detacher {
	unsigned running;
};

/* Frees one of the two; the other is NULL. The detacher must live until detacher_wait(). */
void detacher_take(struct detacher *d, struct attachment *attachment, struct detached *links);
/* Whether something is not detached yet. */
bool detacher_is_busy(const struct detacher *d);
void detacher_wait(const struct detacher *d);
