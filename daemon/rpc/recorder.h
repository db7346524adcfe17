/* SPDX-License-Identifier: Apache-2.0 */
/* The flight recorder, of which there is at most one: root configures it, or a client starts it;
 * and its snapshots. */
#pragma once

#include "daemon/rpc/context.h"

/* Starts the recorder if one is configured. */
int recorder_configure(struct service *s);
/* A process became a target, or has mapped more files. */
void recorder_on_target(struct service *s, const struct target *target);
void recorder_stop(struct service *s);

void profiler_start_recorder(struct grpc_call *call, const uint8_t *message, size_t size,
			     void *data);
void profiler_stop_recorder(struct grpc_call *call, const uint8_t *message, size_t size,
			    void *data);
void profiler_get_snapshot(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void control_snapshot(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
