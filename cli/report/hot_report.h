/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that sampled threads were in. */
#pragma once

#include <stdio.h>

#include "cli/report/json.h"
#include "proto/control.pb-c.h"

/* A table; nothing if nothing was sampled. */
void hot_report_print(FILE *file, const Tfprofd__CaptureResult *result);
/* What the threads of one request executed, as a line; nothing if none was sampled. */
void hot_report_request(FILE *file, const Tfprofd__Request *request);
/* A list of functions as the array "functions". */
void hot_functions_json(struct json *json, Tfprofd__HotFunction *const *functions, size_t n);
/* As the array "hot"; nothing if nothing was sampled. */
void hot_report_json(struct json *json, const Tfprofd__CaptureResult *result);
