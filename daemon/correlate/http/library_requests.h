/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that sockets could not show: seen where gRPC's library has their streams. */
#pragma once

#include <stdint.h>

struct correlator;
struct entry;

/* A thread uses a stream: with its answer, its request has finished, if no socket shows it, as far
 * as is known by now. */
void library_requests_point(struct correlator *c, const struct entry *e);
/* The window has closed, and the requests at sockets are known: adds those that were not read
 * there, on connections of processes that have encrypted ones. */
void library_requests_add(struct correlator *c);
