/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/percent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int percent_parse(const char *text, double *ret)
{
	static const char digits[] = "0123456789";
	const char *p = text + (*text == '-');
	size_t n = strspn(p, digits);
	double percent;

	/* strtod() alone accepts more than users mean by a number: hexadecimal, exponents, nan. */
	if (!n)
		return -EINVAL;
	p += n;
	if (*p == '.') {
		n = strspn(++p, digits);
		if (!n)
			return -EINVAL;
		p += n;
	}
	if (strcmp(p, "") && strcmp(p, "%"))
		return -EINVAL;
	percent = strtod(text, NULL);
	if (percent <= 0 || percent > 100)
		return -ERANGE;
	*ret = percent;
	return 0;
}
