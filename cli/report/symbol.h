/* SPDX-License-Identifier: Apache-2.0 */
/* Readable names of C++ functions. */
#pragma once

#include <stddef.h>

/*
 * The demangled name, to be freed; NULL if it is not a mangled name, if the result could be too
 * long, or if libstdc++, which demangles, is not installed. The name is untrusted.
 */
char *symbol_demangle(const char *symbol);

/*
 * A copy of at most size bytes (at least 10), to be freed; NULL without memory. A longer name loses
 * anonymous namespaces, then the text in its last parentheses, then its middle.
 */
char *symbol_fit(const char *text, size_t size);
