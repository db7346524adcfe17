/* SPDX-License-Identifier: Apache-2.0 */
/* Names of C++ functions as in the source. */
#pragma once

/*
 * The demangled name, to be freed; NULL if it is not a mangled name, or if the result could be too
 * long. The name is untrusted: a process with privileges does not call this.
 */
char *symbol_demangle(const char *symbol);
