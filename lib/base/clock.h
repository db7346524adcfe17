/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <time.h>

/* Nanoseconds. */
uint64_t clock_now(clockid_t clock);

/* Unix time minus CLOCK_MONOTONIC, in ns: the least disturbed of several readings. */
uint64_t clock_unix_offset(void);
