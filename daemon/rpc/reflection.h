/* SPDX-License-Identifier: Apache-2.0 */
/* grpc.reflection.v1 and v1alpha: the services and messages of the daemon. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct grpc_call;

void reflection_info(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
