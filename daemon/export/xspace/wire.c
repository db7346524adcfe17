/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/xspace/wire.h"

#include <string.h>

#include "lib/base/utf8.h"

uint8_t *wire_put_text(uint8_t *p, uint8_t tag, const char *text, size_t length)
{
	uint32_t code;

	p = wire_put_number(p, tag, length);
	for (size_t i = 0, n; i < length; i += n) {
		n = utf8_next(text + i, length - i, &code);
		if (n)
			p = (uint8_t *)memcpy(p, text + i, n) + n;
		else
			*p++ = '?', n = 1;
	}
	return p;
}
