/* SPDX-License-Identifier: Apache-2.0 */
/* Counts requests of a session as they finish, for struct live, and passes them on to triggers. */
#pragma once

#include "daemon/capture/live.h"
#include "daemon/record/sink.h"
#include "daemon/recorder/triggers.h"

/*
 * For a session without a correlator: it uses one of its own, which is replaced every ten seconds.
 * Requests at sockets that are in progress then are counted if they end within ten more seconds,
 * and those of handlers and marks are not. triggers: NULL: none.
 */
struct live_counter;
int live_counter_new(struct live *live, struct triggers *triggers, struct live_counter **ret);
struct live_counter *live_counter_free(struct live_counter *counter);
const struct record_sink *live_counter_sink(struct live_counter *counter);
