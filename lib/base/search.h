/* SPDX-License-Identifier: Apache-2.0 */
/* Binary search. */
#pragma once

#include <stddef.h>

/*
 * The first i below n for which is_before, an expression with i in it, is false; n: there is none.
 * It must be true for all elements before that one, and false for all after it.
 */
#define SEARCH_FIRST(n, i, is_before)                                                              \
	({                                                                                         \
		size_t search_low = 0, search_high = (n);                                          \
                                                                                                   \
		while (search_low < search_high) {                                                 \
			size_t i = search_low + (search_high - search_low) / 2;                    \
                                                                                                   \
			if (is_before)                                                             \
				search_low = i + 1;                                                \
			else                                                                       \
				search_high = i;                                                   \
		}                                                                                  \
		search_low;                                                                        \
	})
