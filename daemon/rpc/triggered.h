/* SPDX-License-Identifier: Apache-2.0 */
/* The snapshots of the configuration's triggers: made when one fires, and counted. */
#pragma once

#include "daemon/rpc/context.h"

struct triggered;

/* -ENOMEM. */
int triggered_new(struct service *s, struct triggered **ret);
struct triggered *triggered_free(struct triggered *t);
/* The sections [trigger NAME] have been read again. What is counted of a name goes on, and so does
 * its snapshot-interval. */
void triggered_set(struct triggered *t, const struct config *config);
/* For the recorder. */
struct triggers *triggered_rules(const struct triggered *t);

struct triggered_counts {
	const char *name;
	uint64_t kept;
	/* Not made, because of snapshot-interval; that could not be made. */
	uint64_t too_soon, failed;
};

/* Those of the trigger with this index; false: there are no more. */
bool triggered_count(const struct triggered *t, unsigned index, struct triggered_counts *ret);
