/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The REST API on 127.0.0.1, with keep-alive and pipelining, by threads that each read, run and
 * answer. They share one epoll, so that idle connections hold no thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "tests/servers/service.h"

struct rest;

/*
 * Listens on the port, or on a free one when it is 0, and starts the workers. The service must live
 * until rest_free(). Returns 0 or a negative errno.
 */
int rest_new(struct service *service, uint16_t port, size_t workers, struct rest **ret);
/* Lets requests in progress finish, closes every connection and ends the workers. */
struct rest *rest_free(struct rest *s);

uint16_t rest_port(const struct rest *s);
/* Requests answered so far. */
uint64_t rest_requests(const struct rest *s);
