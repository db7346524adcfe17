/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a capture, or of a replay, as a message of the Control service. */
#pragma once

#include "daemon/capture/capture.h"
#include "daemon/rpc/requests_reply.h"
#include "proto/control.pb-c.h"

/* Room for a CaptureResult and what it refers to. */
struct result_reply {
	Tfprofd__CaptureResult message;
	Tfprofd__OpSummary ops[SUMMARY_OPS_MAX], *op_list[SUMMARY_OPS_MAX];
	Tfprofd__OpEstimate op_estimates[SUMMARY_OPS_MAX];
	Tfprofd__OpSampling op_sampling;
	Tfprofd__Shed sheds[KIND_COUNT], *shed_list[KIND_COUNT];
	Tfprofd__MemorySummary memory[ALLOCATOR_COUNT], *memory_list[ALLOCATOR_COUNT];
	Tfprofd__HotPlace hot[HOT_PLACES_MAX], *hot_list[HOT_PLACES_MAX];
	Tfprofd__HotFunction hot_functions[HOT_PLACES_MAX][HOT_FUNCTIONS_MAX];
	Tfprofd__HotFunction *hot_function_list[HOT_PLACES_MAX][HOT_FUNCTIONS_MAX];
	uint64_t exported_bytes[EXPORTS_MAX];
	char *advice[ADVICE_MAX];
	char *modules[MODULES_MAX];
	struct requests_reply requests;
};

/* Fills reply->message; it refers to the reply, to the result and to the hostname. */
void result_reply_fill(struct result_reply *reply, const struct capture_result *result,
		       const char *hostname);
/* The same in the form in which a client receives it, to be freed with
 * tfprofd__capture_reply__free_unpacked(). -ENOMEM. */
int result_reply_new(const struct capture_result *result, const char *hostname,
		     Tfprofd__CaptureReply **ret);
