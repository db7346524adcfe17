/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a recording through the same code that made a result from the records when they were
 * captured. Pure: memory in, memory out. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "daemon/capture/capture.h"
#include "daemon/capture/result.h"

struct replay {
	struct result_facts facts;
	struct capture_result result;
	char *hostname;     /* what the facts refer to */
	char *path, *model; /* what the result's filter refers to */
	const uint8_t
		*plan; /* PlanReply of lib/proto/control.proto, within the recording; NULL: none */
	size_t plan_size;
};

/* Additional content of the trace. */
struct replay_extras {
	const bool *device_plane, *input_stages;
	/* Names of formats beside the trace. */
	const char *others[EXPORTS_MAX];
	unsigned n_others;
};

/*
 * extras: a NULL field is as in the capture. The recording may be any bytes; they are aligned to 8
 * and must live as long as *ret, which replay_done() frees if this succeeds. On failure ret_text
 * describes the error, without the file's name: -EBADMSG (not a recording, or a damaged one),
 * -EPROTONOSUPPORT (of a version, or with a pack of probes, that this program does not know),
 * -EFBIG, -ENOMEM.
 */
int replay_make(const void *recording, size_t size, const struct request_list_options *requests,
		const struct replay_extras *extras, struct replay *ret, char *ret_text,
		size_t text_size);
void replay_done(struct replay *replay);
