/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/xspace/wire.h"

#include <string.h>

/* Bytes of the UTF-8 character at s, 0 when there is none. */
static size_t character_size(const uint8_t *s, size_t left)
{
	uint32_t lowest, code;
	size_t n;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc0 && s[0] < 0xe0)
		n = 2, lowest = 0x80, code = s[0] & 0x1f;
	else if (s[0] >= 0xe0 && s[0] < 0xf0)
		n = 3, lowest = 0x800, code = s[0] & 0x0f;
	else if (s[0] >= 0xf0 && s[0] < 0xf8)
		n = 4, lowest = 0x10000, code = s[0] & 0x07;
	else
		return 0;
	if (n > left)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	return code < lowest || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : n;
}

uint8_t *wire_put_text(uint8_t *p, uint8_t tag, const char *text, size_t length)
{
	const uint8_t *s = (const uint8_t *)text;

	p = wire_put_number(p, tag, length);
	for (size_t i = 0, n; i < length; i += n) {
		n = character_size(s + i, length - i);
		if (n)
			p = (uint8_t *)memcpy(p, s + i, n) + n;
		else
			*p++ = '?', n = 1;
	}
	return p;
}
