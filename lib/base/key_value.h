/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of fields, key=value or key="a value", one blank between them. Values are untrusted:
 * quotes, backslashes and what escape.h escapes are in them as \xNN or \u{NNNN}.
 */
#pragma once

#include <stddef.h>

/* Appends a field to the text of *length bytes; a field that has no room in size bytes is left out.
 * Returns 0 or -E2BIG. */
int key_value_put(char *text, size_t size, size_t *length, const char *key, const char *value);
/*
 * Takes the next field from *text, and moves it past that. 1; 0: there is none; -EBADMSG, also if
 * key or value is longer than its size. The value is what was put, with bytes that are not UTF-8.
 */
int key_value_next(const char **text, char *key, size_t key_size, char *value, size_t value_size);
