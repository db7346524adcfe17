/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes text that may not be UTF-8, one character at a time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Bytes of the longest character; a NUL-terminated text may safely be given this size. */
#define UTF8_MAX 4

/*
 * The size in bytes, 1 to 4, of the well-formed UTF-8 character at the beginning of the text of
 * size bytes, and its code point in *ret_code; 0 if it begins with a byte that is not part of one.
 * Reads no byte after one that ends the character, such as a NUL. size must not be 0.
 */
size_t utf8_next(const char *text, size_t size, uint32_t *ret_code);
