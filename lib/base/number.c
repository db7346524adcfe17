/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/number.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	unsigned long long number;

	if (!*text || text[strspn(text, "0123456789")])
		return -EINVAL;
	errno = 0;
	number = strtoull(text, NULL, 10);
	if (errno || number < min || number > max)
		return -ERANGE;
	*ret = number;
	return 0;
}
