/* SPDX-License-Identifier: Apache-2.0 */
/* What somebody who mistyped a name may have meant. */
#pragma once

#include <stddef.h>

/* The name that takes the fewest changes of a letter to become the word, swapping two neighbors
 * counting as one; NULL when even that one takes more than a third of the word's letters. */
const char *nearest_name(const char *word, const char *const *names, size_t n);
