/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensorflow.serving.PredictionService/Predict over gRPC on 127.0.0.1, plaintext. One thread,
 * "grpc_io", reads and parses frames; workers take whole requests, run the models, and each sends
 * its own answer under its connection's lock.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "tests/servers/service.h"

struct grpc;

/*
 * Listens on the port, or on a free one if it is 0, and starts the threads. The service must live
 * until grpc_free(). Returns 0 or a negative errno.
 */
int grpc_new(struct service *service, uint16_t port, size_t workers, struct grpc **ret);
/* Lets queued requests finish, closes every connection and ends the threads. */
struct grpc *grpc_free(struct grpc *s);

uint16_t grpc_port(const struct grpc *s);
/* Requests answered so far. */
uint64_t grpc_requests(const struct grpc *s);
