/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/escape.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/utf8.h"

/* C0 and C1 controls, DEL, and the marks that reorder the text around them. */
static bool is_harmful(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c || code == 0x200e ||
	       code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
	       (code >= 0x2066 && code <= 0x2069);
}

size_t escape_next(const char **text, char piece[static ESCAPE_SIZE])
{
	const char *at = *text;
	uint32_t code;
	size_t size = utf8_next(at, UTF8_MAX, &code);

	*text += size ? size : 1;
	if (size && !is_harmful(code)) {
		memcpy(piece, at, size);
		piece[size] = 0;
		return 1;
	}
	return (size_t)(size > 1 ? snprintf(piece, ESCAPE_SIZE, "\\u{%04x}", (unsigned)code)
				 : snprintf(piece, ESCAPE_SIZE, "\\x%02x", (unsigned char)*at));
}

size_t escape_text(const char *text, char *to, size_t size)
{
	char piece[ESCAPE_SIZE];
	size_t length = 0;

	while (*text) {
		size_t n;

		escape_next(&text, piece);
		n = strlen(piece);
		if (length + n >= size)
			break;
		memcpy(to + length, piece, n);
		length += n;
	}
	if (size)
		to[length] = 0;
	return length;
}

void escape_overwrite(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}
