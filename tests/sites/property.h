/* SPDX-License-Identifier: Apache-2.0 */
/* The property that the sites of generated functions have, by calls of each in a process of its
 * own. */
#pragma once

#include <stdbool.h>

/* Checks one library; prints a line that begins with ok or FAIL, and what is wrong. Returns whether
 * all is well. */
bool property_check(const char *path);
/* Prints what the libraries had together; returns whether few enough functions were left without a
 * site. */
bool property_summarise(void);
