/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that sampled threads were in. */
#pragma once

#include <stdio.h>

#include "cli/report/json.h"
#include "proto/control.pb-c.h"

/* A table; nothing if nothing was sampled. */
void hot_report_print(FILE *file, const Tfprofd__CaptureResult *result);
/* As the array "hot"; nothing if nothing was sampled. */
void hot_report_json(struct json *json, const Tfprofd__CaptureResult *result);
