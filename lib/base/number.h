/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers as users write them. */
#pragma once

#include <stdint.h>

/* Reads digits only. -EINVAL if the text is anything else, -ERANGE outside min to max; *ret is then
 * unchanged. */
int number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *ret);
