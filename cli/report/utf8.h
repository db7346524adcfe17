/* SPDX-License-Identifier: Apache-2.0 */
/* Reading text that may be anything, one character at a time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * The size in bytes, 1 to 4, of the well-formed UTF-8 character that the NUL-terminated text begins
 * with, and its code point in *ret_code; 0 when it begins with a byte that is part of none, or with
 * the NUL.
 */
size_t utf8_next(const char *text, uint32_t *ret_code);
