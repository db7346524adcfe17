/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/quota.h"

#include <stdio.h>

#include "lib/base/duration.h"

const char *quota_text(uint64_t quota_ns, uint64_t period_ns, char text[static QUOTA_TEXT])
{
	char quota[DURATION_TEXT], period[DURATION_TEXT];

	if (!quota_ns || !period_ns)
		snprintf(text, QUOTA_TEXT, "unknown");
	else
		snprintf(text, QUOTA_TEXT, "%.4g %% of a CPU, %s per %s",
			 (double)quota_ns * 100 / (double)period_ns, duration_text(quota_ns, quota),
			 duration_text(period_ns, period));
	return text;
}
