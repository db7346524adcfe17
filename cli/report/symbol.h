/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions as people know them. */
#pragma once

#include <stddef.h>

/*
 * What a mangled C++ name stands for, to be freed; NULL when it is none, when it could grow out of
 * bounds, or when the C++ library, which reads it, is not installed. The name may come from
 * somebody else's binary.
 */
char *symbol_demangle(const char *symbol);

/*
 * A copy of at most so many bytes (10 at the least), to be freed; NULL without memory. What is too
 * long loses namespaces without a name, then what stands in its last brackets, and then its middle.
 */
char *symbol_fit(const char *text, size_t size);
