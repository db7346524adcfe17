/* SPDX-License-Identifier: Apache-2.0 */
/* The stream of messages in reply to a capture or a snapshot: each is processed as it arrives. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/outcome.h"
#include "cli/output/new_file.h"
#include "cli/output/output.h"

struct session;

struct answer {
	struct output output;
	bool show_progress;
	uint64_t duration_ns, count; /* of the window; of requests that end it, 0: none */
	struct new_file *recording;  /* NULL: not requested */
	const char *recording_path;
};

/* Calls a method of the Control service and reads its reply up to the result. Anything but
 * OUTCOME_OK was explained to the user. */
enum outcome answer_ask(struct answer *answer, struct session *session, const char *path,
			const ProtobufCMessage *request, uint64_t timeout_ns);
