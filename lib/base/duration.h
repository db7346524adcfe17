/* SPDX-License-Identifier: Apache-2.0 */
/* Durations as users write and read them. */
#pragma once

#include <stdint.h>

/* The longest that is accepted: a longer one is probably a typing error. */
#define DURATION_MAX_NS (3600 * UINT64_C(1000000000))

/* Enough for any text that duration_text() writes. */
#define DURATION_TEXT 32

/*
 * Reads "500ms", "2s", "1.5s", "1m", "1h"; a number alone is seconds. -EINVAL if the text is not a
 * duration, -ERANGE if it is 0, negative, or more than DURATION_MAX_NS.
 */
int duration_parse(const char *text, uint64_t *ret_ns);

/* Three digits and a unit: "310 ns", "12.3 us", "1.20 ms", "2.00 s", "200 s". Returns text. */
const char *duration_text(uint64_t ns, char text[static DURATION_TEXT]);
