/* SPDX-License-Identifier: Apache-2.0 */
/* grpc.reflection.v1 and v1alpha: the services and messages of the daemon. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct grpc_call;
struct reflection_files;

struct reflection_files *reflection_free(struct reflection_files *files);
void reflection_info(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
