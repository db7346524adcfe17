/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of a capture one by one, with their critical paths, as messages of tfprofctl's
 * service: CaptureReply (lib/proto/control.proto) with requests and slowest, packed, of about 1 MiB
 * each. Pure: memory in, memory out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/timeline/timeline.h"

#define REQUEST_LIST_MAX 1000000
#define REQUEST_LIST_BYTES_MAX (512ull << 20)
#define REQUEST_SLOWEST_MAX 1000
/* Limits of one request: further pieces of its critical path are merged, further runs and batches
 * only counted. */
#define REQUEST_SEGMENTS_MAX 4096
#define REQUEST_RUNS_MAX 1024

struct request_list_options {
	bool all;         /* all requests that are not filtered */
	unsigned slowest; /* this number of the slowest whole requests; at most REQUEST_SLOWEST_MAX
			   */
	uint64_t max_requests, max_bytes; /* 0: the limits above; for tests */
};

struct request_message {
	uint8_t *bytes; /* malloc'ed; NULL: it was moved elsewhere */
	size_t size;
};

struct request_list {
	struct request_message *messages;
	size_t n_messages, messages_allocated;
	uint64_t n_left_out; /* requests beyond the limits */
};

/* Makes the lists that were asked for; ret does not refer to the timeline, and request_list_done()
 * frees it. -ENOMEM. */
int request_list_make(const struct timeline *t, const struct request_list_options *options,
		      struct request_list *ret);
/* Accepts a list of zeros, or one that was freed before. */
void request_list_done(struct request_list *list);
