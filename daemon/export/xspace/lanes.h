/* SPDX-License-Identifier: Apache-2.0 */
/* Requests on lines of their own, and batches. */
#pragma once

#include "daemon/export/xspace/writer.h"

/* The event name of a request in the open plane. */
uint32_t lanes_request_name(struct writer *w, const struct request *q);

/* Writes a line for each lane that has a request. Errors are those of the xspace, and -ENOMEM. */
int lanes_write(struct writer *w);

/* The context of a batch that is shown as one; 0: it is truncated, or UINT32_MAX. */
uint64_t lanes_batch_context(const struct timeline *t, uint32_t batch);
