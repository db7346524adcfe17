/* SPDX-License-Identifier: Apache-2.0 */
/* A recording, once more through everything that made a result of the records when they were
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

/* What the trace is to have besides. */
struct replay_extras {
	const bool *device_plane, *input_stages;
};

/*
 * extras: each NULL: as the capture had it. The recording may be any bytes; they are aligned to 8
 * and must live as long as *ret, which replay_done() frees when this succeeds. On failure ret_text
 * says what is wrong, without the file's name: -EBADMSG (no recording, or a damaged one),
 * -EPROTONOSUPPORT (of a version, or a pack of probes, that this program does not know), -EFBIG,
 * -ENOMEM.
 */
int replay_make(const void *recording, size_t size, const struct request_list_options *requests,
		const struct replay_extras *extras, struct replay *ret, char *ret_text,
		size_t text_size);
void replay_done(struct replay *replay);
