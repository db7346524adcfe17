/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's own metrics for Prometheus, and its health, over HTTP on a socket of their own. */
#pragma once

#include "daemon/rpc/context.h"

struct metrics;

/* Serves /metrics and /healthz on a listening socket, which it owns on success. -ENOMEM. */
int metrics_new(struct service *s, int fd, struct metrics **ret);
struct metrics *metrics_free(struct metrics *m);
