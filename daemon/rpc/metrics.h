/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's own measurements for Prometheus, and whether it serves, over HTTP on a socket of
 * their own. */
#pragma once

#include "daemon/rpc/context.h"

struct metrics;

/* Serves /metrics and /healthz on a socket that listens, which it owns from success on. -ENOMEM. */
int metrics_new(struct service *s, int fd, struct metrics **ret);
struct metrics *metrics_free(struct metrics *m);
