/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Serving's REST API: POST /v1/models/NAME:predict and GET /v1/models/NAME. */
#pragma once

#include "tests/servers/http1.h"
#include "tests/servers/service.h"

/* Does what the request asks and appends the answer; fills in what the record contains about a run.
 * Returns 0 or -ENOMEM. */
int rest_answer(struct service *s, const struct http1_request *q, struct truth_record *record,
		struct buffer *ret);
