/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <time.h>

/* Nanoseconds. */
uint64_t clock_now(clockid_t clock);

/* Unix time less CLOCK_MONOTONIC, in ns: of several readings the one that was least disturbed. */
uint64_t clock_unix_offset(void);
