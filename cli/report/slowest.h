/* SPDX-License-Identifier: Apache-2.0 */
/* The slowest requests of a capture: where the time of each went, as an indented timeline. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "cli/report/json.h"
#include "proto/control.pb-c.h"

/* For each request: what it was, a verdict, and its critical path; pieces below 0.5 % of its
 * latency are told together. */
void slowest_print(FILE *file, Tfprofd__Request *const *requests, size_t n);
/* An array of the same requests with everything that is known of them. */
void slowest_json(struct json *json, const char *key, Tfprofd__Request *const *requests, size_t n);
/* "92 % decode: blocked in clock_nanosleep, thread worker/12"; malloc'ed, NULL: no memory, or there
 * is nothing to say. */
char *slowest_verdict(const Tfprofd__Request *request);
