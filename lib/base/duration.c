/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/duration.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/macro.h"

static const struct {
	const char *suffix;
	uint64_t ns;
} units[] = { { "ms", 1000000 },
	      { "s", 1000000000 },
	      { "", 1000000000 },
	      { "m", 60 * UINT64_C(1000000000) },
	      { "h", 3600 * UINT64_C(1000000000) } };

static uint64_t unit_of(const char *suffix)
{
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (!strcmp(suffix, units[i].suffix))
			return units[i].ns;
	return 0;
}

int duration_parse(const char *text, uint64_t *ret_ns)
{
	bool negative = *text == '-', too_long;
	const char *fraction = NULL, *p = text + negative;
	uint64_t whole = 0, ns, unit;

	if (!isdigit((unsigned char)*p))
		return -EINVAL;
	for (; isdigit((unsigned char)*p); p++)
		if (whole <= DURATION_MAX_NS) /* more digits cannot bring it back into range */
			whole = whole * 10 + (uint64_t)(*p - '0');
	if (*p == '.') {
		fraction = ++p;
		if (!isdigit((unsigned char)*p))
			return -EINVAL;
		while (isdigit((unsigned char)*p))
			p++;
	}
	unit = unit_of(p);
	if (!unit)
		return -EINVAL;
	too_long = whole > DURATION_MAX_NS / unit;
	ns = too_long ? DURATION_MAX_NS + 1 : whole * unit;
	for (; fraction && isdigit((unsigned char)*fraction); fraction++) {
		unit /= 10;
		ns += unit * (uint64_t)(*fraction - '0');
	}
	if (negative || !ns || ns > DURATION_MAX_NS)
		return -ERANGE;
	*ret_ns = ns;
	return 0;
}

const char *duration_text(uint64_t ns, char text[static DURATION_TEXT])
{
	static const char *const names[] = { "ns", "us", "ms", "s" };
	double value = (double)ns;
	size_t unit = 0;

	/* 999.5 is where three digits would round to four. */
	while (value >= 999.5 && unit + 1 < ARRAY_SIZE(names)) {
		value /= 1000;
		unit++;
	}
	if (!unit || value >= 99.95)
		snprintf(text, DURATION_TEXT, "%.0f %s", value, names[unit]);
	else
		snprintf(text, DURATION_TEXT, "%.*f %s", value < 9.995 ? 2 : 1, value, names[unit]);
	return text;
}
