/* SPDX-License-Identifier: Apache-2.0 */
/* Which functions the frames of sampled stacks are in: by the mappings of the processes, and by the
 * symbols of the files, which the prover reads. */
#pragma once

#include "daemon/proxy/proxy.h"
#include "daemon/record/journal.h"
#include "daemon/timeline/timeline.h"

/*
 * Gives each frame of a process its function. Where the name is unknown it is the place: the file
 * and the offset in it, or the address. recording: receives the names; NULL: there is none.
 * -ENOMEM.
 */
int symbols_find(struct proxy *proxy, struct timeline *t, struct journal *recording);
/* The same, with the names of a recording: the bytes of its section JOURNAL_SYMBOLS. -EBADMSG,
 * -ENOMEM. */
int symbols_recall(struct timeline *t, const uint8_t *bytes, size_t size);
/* Gives the frames that still have none a function that states that it is unknown. -ENOMEM. */
int symbols_complete(struct timeline *t);
