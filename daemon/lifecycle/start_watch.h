/* SPDX-License-Identifier: Apache-2.0 */
/* Watches processes while they start, with a session of few probes, in a thread of its own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/capture/budget/forecast.h"
#include "daemon/capture/prepare.h"
#include "daemon/capture/session.h"
#include "daemon/lifecycle/lives.h"
#include "daemon/record/sink.h"

/* Several entries can belong to one process: its files are mapped one after the other. */
#define PREPARED_MAX (2 * RECORD_MAX_TARGETS)

struct start_watch {
	const struct lifecycles_options *options;
	struct lives *lives;
	struct record_sink sink;
	struct session *session; /* NULL: no process is starting */
	struct prepared prepared[PREPARED_MAX];
	unsigned n_prepared;
	struct watched {
		uint32_t program;
		const struct pack_set *packs;
		bool is_done;
		/* The session's targets, by their numbers; one can have several entries in
		 * .prepared. */
	} watched[RECORD_MAX_TARGETS];
	unsigned n_watched;
	struct forecast forecast;
};

/* Watches the lives that wait, until they are ending. */
void start_watch_run(struct start_watch *watch);
