/* SPDX-License-Identifier: Apache-2.0 */
/* Names of operations that are numbers: read out of the target's files, they go to the sinks as the
 * names of objects do, so that a recording has them. */
#pragma once

#include "daemon/capture/prepare.h"
#include "daemon/record/sink.h"

/* Those of the files of a target, which the sinks know by this number; time: of the records.
 * Returns the first error of the sinks. */
int name_lists_feed(const struct record_sinks *sinks, const struct prepared *p, unsigned target,
		    uint64_t time);
