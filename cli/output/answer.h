/* SPDX-License-Identifier: Apache-2.0 */
/* The stream of messages that the daemon answers a capture or a snapshot with: each goes where it
 * belongs as it comes. */
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
	uint64_t duration_ns,
		count;              /* of the window that is waited for, and of requests, 0: none */
	struct new_file *recording; /* NULL: none was asked for */
	const char *recording_path;
};

/* Calls a method of the Control service and reads its answer up to the result. Anything but
 * OUTCOME_OK has been explained to the user. */
enum outcome answer_ask(struct answer *answer, struct session *session, const char *path,
			const ProtobufCMessage *request, uint64_t timeout_ns);
