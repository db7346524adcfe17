/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions for display. */
#pragma once

#include <stddef.h>

/*
 * A copy of at most size bytes (at least 10), to be freed; NULL without memory. A longer name loses
 * anonymous namespaces, then the text in its last parentheses, then its middle.
 */
char *symbol_fit(const char *text, size_t size);
