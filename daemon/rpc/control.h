/* SPDX-License-Identifier: Apache-2.0 */
/* The service that tfprofctl calls: targets, plans and captures. */
#pragma once

#include "daemon/rpc/jobs.h"

void control_list_targets(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void control_plan(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void control_capture(struct grpc_call *call, const uint8_t *message, size_t size, void *data);

/* The format of the trace, by its name; "": the first one. On -EINVAL the call is answered. */
int control_choose_format(struct grpc_call *call, const char *name, const struct exporter **ret);
/* Answers a capture that has ended, or a snapshot. */
void control_answer(struct job *job, struct capture_result *result);
