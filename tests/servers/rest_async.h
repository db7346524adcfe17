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

/* What marks the requests that threads hand one another: functions of libtfprof.so. */
struct work_marks {
	void (*made)(uint64_t id);
	void (*begin)(uint64_t id);
	void (*end)(uint64_t id);
};

/* As those of rest.h; marks: NULL for none. */
int rest_async_new(struct service *service, uint16_t port, size_t workers,
		   const struct work_marks *marks, struct rest_async **ret);
struct rest_async *rest_async_free(struct rest_async *s);
uint16_t rest_async_port(const struct rest_async *s);
uint64_t rest_async_requests(const struct rest_async *s);
