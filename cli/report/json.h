/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes one JSON value to a file, always in valid UTF-8. The caller pairs begins with ends; the
 * key is NULL for elements of an array and for the outermost value.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* To be zeroed except for the file and compact. */
struct json {
	FILE *file;
	unsigned int depth;
	bool comma;   /* an element precedes at this depth */
	bool compact; /* in one line */
};

void json_object_begin(struct json *json, const char *key);
void json_object_end(struct json *json);
void json_array_begin(struct json *json, const char *key);
void json_array_end(struct json *json);

/* Bytes that are not UTF-8 become U+FFFD; control characters are escaped. NULL is written as null.
 */
void json_string(struct json *json, const char *key, const char *text);
void json_number(struct json *json, const char *key, uint64_t number);
void json_integer(struct json *json, const char *key, int64_t number);
/* With three decimals; null unless the number is finite. */
void json_real(struct json *json, const char *key, double number);
void json_bool(struct json *json, const char *key, bool value);
