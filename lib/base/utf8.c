/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/utf8.h"

size_t utf8_next(const char *text, size_t size, uint32_t *ret_code)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *bytes = (const unsigned char *)text;
	uint32_t code = bytes[0];
	size_t n;

	if (code < 0x80) {
		*ret_code = code;
		return 1;
	}
	if (code >= 0xc0 && code < 0xe0)
		n = 2;
	else if (code >= 0xe0 && code < 0xf0)
		n = 3;
	else if (code >= 0xf0 && code < 0xf8)
		n = 4;
	else
		return 0;
	if (n > size)
		return 0;
	code &= 0x7fu >> n;
	for (size_t i = 1; i < n; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (bytes[i] & 0x3f);
	}
	/* Overlong forms, surrogates, and code points beyond Unicode. */
	if (code < smallest[n] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff)
		return 0;
	*ret_code = code;
	return n;
}
