/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes one JSON value to a file, as a document of valid UTF-8 whatever the texts in it are. The
 * caller pairs begins with ends and gives a key to each member of an object, NULL to each element
 * of an array and to the outermost value.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A writer with only the file set is ready. */
struct json {
	FILE *file;
	unsigned int depth;
	bool comma;   /* something precedes on this level */
	bool compact; /* in one line; to be set at first */
};

void json_object_begin(struct json *json, const char *key);
void json_object_end(struct json *json);
void json_array_begin(struct json *json, const char *key);
void json_array_end(struct json *json);

/* Bytes that are no UTF-8 become U+FFFD; control characters are escaped. NULL writes null. */
void json_string(struct json *json, const char *key, const char *text);
void json_number(struct json *json, const char *key, uint64_t number);
void json_integer(struct json *json, const char *key, int64_t number);
/* With three digits after the point; null when it is no finite number. */
void json_real(struct json *json, const char *key, double number);
void json_bool(struct json *json, const char *key, bool value);
