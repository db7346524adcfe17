/* SPDX-License-Identifier: Apache-2.0 */
/* Counts requests of a session as they finish, for struct live. */
#pragma once

#include "daemon/capture/live.h"
#include "daemon/record/sink.h"

/*
 * For a session without a correlator: it uses one of its own, which is replaced every ten seconds.
 * Requests that are in progress then are not counted.
 */
struct live_counter;
int live_counter_new(struct live *live, struct live_counter **ret);
struct live_counter *live_counter_free(struct live_counter *counter);
const struct record_sink *live_counter_sink(struct live_counter *counter);
