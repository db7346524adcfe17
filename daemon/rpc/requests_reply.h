/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture reports about requests, as messages of tfprofctl's service. */
#pragma once

#include "daemon/capture/capture.h"
#include "lib/grpc/server.h"
#include "proto/control.pb-c.h"

/* Room for a RequestSummary and what it refers to. */
struct requests_reply {
	Tfprofd__RequestSummary message;
	Tfprofd__RequestFilter filter;
	Tfprofd__BatchSummary batches;
	Tfprofd__Percentiles latency, phases[PHASE_COUNT], *phase_list[PHASE_COUNT];
	Tfprofd__ModelSummary models[REQUEST_MODELS_MAX], *model_list[REQUEST_MODELS_MAX];
};

/* Fills reply->message; it refers to the reply and to the result. */
void requests_reply_fill(struct requests_reply *reply, const struct capture_result *result);

/*
 * Sends the requests that are listed one by one; the call owns the memory of what was sent, also on
 * failure. A client that does not read ends its call: nothing is copied for it, and the list has a
 * limit. -ENOMEM, -ECANCELED.
 */
int requests_reply_send(struct grpc_call *call, struct request_list *list);

/* The request's filter, whose strings belong to the message. On -EINVAL the call is answered. */
int requests_reply_check(struct grpc_call *call, const Tfprofd__RequestFilter *f, uint32_t slowest,
			 struct request_filter *ret);
