/* SPDX-License-Identifier: Apache-2.0 */
/* Watches processes while they start, by a session of few probes, in a thread of its own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/capture/budget/forecast.h"
#include "daemon/capture/prepare.h"
#include "daemon/capture/session.h"
#include "daemon/lifecycle/lives.h"
#include "daemon/record/sink.h"

/* Of one process several can be prepared: its files come one after the other. */
#define PREPARED_MAX (2 * RECORD_MAX_TARGETS)

struct start_watch {
	const struct lifecycles_options *options;
	struct lives *lives;
	struct record_sink sink;
	struct session *session; /* NULL: nobody starts */
	struct prepared prepared[PREPARED_MAX];
	unsigned n_prepared;
	struct watched {
		uint32_t program;
		const struct pack_set *packs;
		bool is_done;
	} watched[RECORD_MAX_TARGETS]; /* the session's targets, by their numbers; of one there may
					  be several that are prepared */
	unsigned n_watched;
	struct forecast forecast;
};

/* Watches those of the lives that wait, until they are ending. */
void start_watch_run(struct start_watch *watch);
