/* SPDX-License-Identifier: Apache-2.0 */
/* Suggestions for mistyped names. */
#pragma once

#include <stddef.h>

/* The name with the fewest changed letters compared with the word, swapping two neighbors counting
 * as one; NULL if even that one differs in more than a third of the word's letters. */
const char *nearest_name(const char *word, const char *const *names, size_t n);
