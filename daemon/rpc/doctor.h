/* SPDX-License-Identifier: Apache-2.0 */
/* What prevents a capture: the broker's findings about the host and a process, and those that only
 * the front can make. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct grpc_call;

void control_doctor(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
