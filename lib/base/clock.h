/* Two clocks of the same moment. */
#pragma once

#include <stdint.h>

/* Unix time less CLOCK_MONOTONIC, in ns: of several readings the one that was least disturbed. */
uint64_t clock_unix_offset(void);
