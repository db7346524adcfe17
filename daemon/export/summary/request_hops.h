/* SPDX-License-Identifier: Apache-2.0 */
/* The calls between processes, of the requests that request_list.h lists. */
#pragma once

#include "daemon/timeline/timeline.h"
#include "proto/control.pb-c.h"

/* Further ones of a request are only counted. */
#define REQUEST_CALLS_MAX 64

/* Memory of the message at hand. */
struct request_hops {
	Tfprofd__RequestHop calls[REQUEST_CALLS_MAX], called_by;
	Tfprofd__RequestHop *list[REQUEST_CALLS_MAX];
};

void request_hops_fill(struct request_hops *h, const struct timeline *t, const struct request *r,
		       Tfprofd__Request *m);
