/* SPDX-License-Identifier: Apache-2.0 */
/* The snapshots of the configuration's triggers: made when one fires, and counted. */
#pragma once

#include "daemon/rpc/context.h"

struct triggered;

/* Without sections [trigger NAME] *ret is NULL. -ENOMEM. */
int triggered_new(struct service *s, struct triggered **ret);
struct triggered *triggered_free(struct triggered *t);
/* For the recorder; NULL: none. */
struct triggers *triggered_rules(const struct triggered *t);

struct triggered_counts {
	const char *name;
	uint64_t kept;
	/* Not made, because of snapshot-interval; that could not be made. */
	uint64_t too_soon, failed;
};

/* Those of the trigger with this index; false: there are no more. t: NULL: none. */
bool triggered_count(const struct triggered *t, unsigned index, struct triggered_counts *ret);
