/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/key_value.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/escape.h"

static bool put(char *text, size_t size, size_t *length, const char *piece)
{
	size_t n = strlen(piece);

	if (*length + n >= size)
		return false;
	memcpy(text + *length, piece, n + 1);
	*length += n;
	return true;
}

int key_value_put(char *text, size_t size, size_t *length, const char *key, const char *value)
{
	bool quoted = !*value || strpbrk(value, " =\"\\");
	const size_t begin = *length;
	char piece[ESCAPE_SIZE];
	bool fits;

	fits = (!begin || put(text, size, length, " ")) && put(text, size, length, key) &&
	       put(text, size, length, quoted ? "=\"" : "=");
	while (fits && *value) {
		if (*value == '"' || *value == '\\')
			snprintf(piece, sizeof(piece), "\\x%02x", *value++);
		else
			escape_next(&value, piece);
		fits = put(text, size, length, piece);
	}
	if (fits && quoted)
		fits = put(text, size, length, "\"");
	if (fits)
		return 0;
	*length = begin;
	if (size)
		text[begin] = 0;
	return -E2BIG;
}

/* The bytes of an escape, and the text after it; NULL: it is malformed. */
static const char *unescape(const char *at, char ret[static 4], size_t *ret_n)
{
	char *end;
	unsigned long code;

	if (at[1] == 'x') {
		const char digits[] = { at[2], at[2] ? at[3] : 0, 0 };

		code = strtoul(digits, &end, 16);
		ret[0] = (char)code;
		*ret_n = 1;
		return end == digits + 2 && code ? at + 4 : NULL;
	}
	if (at[1] != 'u' || at[2] != '{')
		return NULL;
	code = strtoul(at + 3, &end, 16);
	if (*end != '}' || end != at + 7 || code < 0x80)
		return NULL;
	*ret_n = 0;
	if (code >= 0x800)
		ret[(*ret_n)++] = (char)(0xe0 | code >> 12);
	ret[(*ret_n)++] = (char)(code >= 0x800 ? 0x80 | (code >> 6 & 0x3f) : 0xc0 | code >> 6);
	ret[(*ret_n)++] = (char)(0x80 | (code & 0x3f));
	return end + 1;
}

int key_value_next(const char **text, char *key, size_t key_size, char *value, size_t value_size)
{
	const char *at = *text + strspn(*text, " ");
	size_t n = strcspn(at, "= \""), length = 0;
	bool quoted;

	if (!*at)
		return 0;
	if (at[n] != '=' || !n || n >= key_size)
		return -EBADMSG;
	snprintf(key, key_size, "%.*s", (int)n, at);
	at += n + 1;
	quoted = *at == '"';
	at += quoted;
	while (*at && *at != (quoted ? '"' : ' ')) {
		char bytes[4] = { *at };
		size_t n_bytes = 1;

		at = *at == '\\' ? unescape(at, bytes, &n_bytes) : at + 1;
		if (!at || length + n_bytes >= value_size)
			return -EBADMSG;
		memcpy(value + length, bytes, n_bytes);
		length += n_bytes;
	}
	if (quoted && *at++ != '"')
		return -EBADMSG;
	value[length] = 0;
	*text = at;
	return 1;
}
