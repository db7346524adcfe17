/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon logs of captures. */
#pragma once

#include <sys/types.h>

#include "daemon/capture/capture.h"

/* Logs a capture that has ended, in one line: whose it was, of which processes, its level, its
 * length and its result. subject: of the client's certificate, NULL: none. */
void capture_log_end(uid_t uid, const char *subject, const struct capture *capture,
		     const struct capture_result *result);
