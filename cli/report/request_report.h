/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of a capture's requests: counts, latencies and the time in each phase. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "cli/report/json.h"
#include "proto/control.pb-c.h"

/* Whether there is any request besides filtered ones; NULL: an older daemon. */
bool request_report_has_any(const Tfprofd__RequestSummary *summary);
/* The lines of the summary; nothing without requests. */
void request_report_print(FILE *file, const Tfprofd__RequestSummary *summary);
/* The tables of phases and of models; nothing if no request is whole. */
void request_report_print_tables(FILE *file, const Tfprofd__RequestSummary *summary);
/* An object with every number; null for a summary of NULL. */
void request_report_json(struct json *json, const char *key,
			 const Tfprofd__RequestSummary *summary);
