/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas of CPU time as users read them. */
#pragma once

#include <stdint.h>

/* Enough for any text that quota_text() writes. */
#define QUOTA_TEXT 96

/* "20 % of a CPU, 20.0 ms per 100 ms"; "unknown" if one of them is 0. Returns text. */
const char *quota_text(uint64_t quota_ns, uint64_t period_ns, char text[static QUOTA_TEXT]);
