/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture says of requests in numbers: how many, how long, and which phases the time went
 * into. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "cli/report/json.h"
#include "proto/control.pb-c.h"

/* Whether any request was seen that is shown; NULL: a daemon that knows none. */
bool request_report_has_any(const Tfprofd__RequestSummary *summary);
/* The lines of the summary; nothing when no request was seen. */
void request_report_print(FILE *file, const Tfprofd__RequestSummary *summary);
/* The tables of phases and of models; nothing when no request was whole. */
void request_report_print_tables(FILE *file, const Tfprofd__RequestSummary *summary);
/* An object with every number; null for a summary of NULL. */
void request_report_json(struct json *json, const char *key,
			 const Tfprofd__RequestSummary *summary);
