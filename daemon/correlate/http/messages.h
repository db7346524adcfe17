/* SPDX-License-Identifier: Apache-2.0 */
/* Requests out of the parts of messages that pass through sockets. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "include/record_types.h"

struct correlator;

/* Traffic in which requests may be missing. Zeros at first. */
struct messages {
	uint64_t n_unseen[UNSEEN_OTHER + 1];
	uint64_t n_unknown_role; /* messages on connections that may be a server's or a client's */
};

/* Takes a record of socket traffic of a current target. */
void messages_on_record(struct correlator *c, const struct record *record);
/* A message whose connection may be a server's or a client's is not used. */
void messages_note_unknown_role(struct correlator *c);
/* Sockets, or only decrypted bytes, are not observed after that time: requests that are still open
 * are truncated. */
void messages_end(struct correlator *c, uint64_t time, bool decrypted);
/* The window has closed: hands the requests over to the timeline. */
void messages_close(struct correlator *c);
