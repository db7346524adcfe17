/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers as people write them. */
#pragma once

#include <stdint.h>

/* Reads digits alone. -EINVAL when it is no such text, -ERANGE outside of min to max; *ret is then
 * untouched. */
int number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *ret);
