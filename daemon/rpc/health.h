/* SPDX-License-Identifier: Apache-2.0 */
/* grpc.health.v1.Health: whether the daemon serves. */
#pragma once

#include "daemon/rpc/context.h"

void health_check(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void health_watch(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
/* Notifies the watchers, and ends their calls. */
void health_stop(struct service *s);
