/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns as people know them of file names: * stands for any text, ? for one byte, everything
 * else for itself. */
#pragma once

#include <stdbool.h>

/* Whether the pattern matches the whole text, in no more steps than their lengths multiplied,
 * whatever they are. */
bool glob_matches(const char *pattern, const char *text);
