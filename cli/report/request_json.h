/* SPDX-License-Identifier: Apache-2.0 */
/* A request as a JSON object; docs/requests.md describes the keys. */
#pragma once

#include "cli/report/json.h"
#include "proto/control.pb-c.h"

/* key: see cli/report/json.h. */
void request_json(struct json *json, const char *key, const Tfprofd__Request *request);
