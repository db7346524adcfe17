/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture attaches, as a message of the Control service. */
#pragma once

#include "daemon/capture/capture.h"
#include "proto/control.pb-c.h"

/* The message refers to the plan, which must live until plan_reply_free(). -ENOMEM. */
int plan_reply_new(const struct capture_plan *plan, Tfprofd__PlanReply **ret);
Tfprofd__PlanReply *plan_reply_free(Tfprofd__PlanReply *reply);
