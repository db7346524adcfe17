/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns as for file names: * matches any text, ? one byte, everything else itself. */
#pragma once

#include <stdbool.h>

/* Whether the pattern matches the whole text. The number of steps is at most the product of their
 * lengths. */
bool glob_matches(const char *pattern, const char *text);
