/* SPDX-License-Identifier: Apache-2.0 */
/* The slowest requests of a capture, each as a timeline of what it waited for. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "cli/report/json.h"
#include "proto/control.pb-c.h"

/* For each request its identity, a verdict, and its critical path; pieces below 0.5 % of the
 * latency are combined. */
void slowest_print(FILE *file, Tfprofd__Request *const *requests, size_t n);
/* An array of the requests with all their fields. */
void slowest_json(struct json *json, const char *key, Tfprofd__Request *const *requests, size_t n);
/* "92 % decode: blocked in clock_nanosleep, thread worker/12"; malloc'ed, NULL: no memory, or no
 * cause is known. */
char *slowest_verdict(const Tfprofd__Request *request);
