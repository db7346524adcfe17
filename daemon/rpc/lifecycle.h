/* SPDX-License-Identifier: Apache-2.0 */
/* How processes started, for tfprofctl. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct grpc_call;

void control_lifecycle(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
