/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture attaches, as text and as JSON. docs/plan.md describes both. */
#pragma once

#include <stdio.h>

#include "cli/options/arguments.h"
#include "cli/report/json.h"
#include "proto/control.pb-c.h"

/* Lines have at most 120 columns unless a path or a sentence is longer. -ENOMEM. */
int plan_report_print(FILE *file, const Tfprofd__PlanReply *plan,
		      const struct selection *selection);
/* One object; times in ns, sizes and offsets in bytes. */
void plan_report_json(struct json *json, const char *key, const Tfprofd__PlanReply *plan,
		      const struct selection *selection);
/*
 * "an op costs about 1.20 us (2 probes), a run 1.20 us (2 probes); estimated from another machine",
 * to be freed; NULL without memory.
 */
char *plan_report_forecast(const Tfprofd__PlanReply *plan);
