/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The REST API on 127.0.0.1 with other threads: one, "http_io", reads all requests and writes all
 * answers; workers only run the models. Only wake-ups then show which run belongs to which request.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "tests/servers/service.h"

struct rest_async;

/* As those of rest.h. */
int rest_async_new(struct service *service, uint16_t port, size_t workers, struct rest_async **ret);
struct rest_async *rest_async_free(struct rest_async *s);
uint16_t rest_async_port(const struct rest_async *s);
uint64_t rest_async_requests(const struct rest_async *s);
