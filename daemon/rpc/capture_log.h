/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon logs about captures. */
#pragma once

#include <sys/types.h>

#include "daemon/capture/capture.h"

/* Logs in one line a capture that has ended: its user, its processes, its level, its length and its
 * result. subject: of the client's certificate, NULL: none. */
void capture_log_end(uid_t uid, const char *subject, const struct capture *capture,
		     const struct capture_result *result);
