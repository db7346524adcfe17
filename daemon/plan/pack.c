#include "daemon/plan/pack.h"

#include <fnmatch.h>
#include <stddef.h>

/* A pack registers itself by its symbol: one line here is all that a new runtime needs besides its file. */
#define PACKS(X) X(tensorflow)

#define DECLARE(name) extern const struct probe_pack pack_##name;
#define LIST(name) &pack_##name,
PACKS(DECLARE)
const struct probe_pack *const packs[] = { PACKS(LIST) NULL };

bool pack_glob(const char *pattern, const char *string)
{
	return fnmatch(pattern, string, 0) == 0;
}

const struct probe_pack *pack_find(const char *base_name, bool executable)
{
	for (const struct probe_pack *const *p = packs; *p; p++)
		for (const char *const *f = executable ? (*p)->executables : (*p)->files; f && *f; f++)
			if (pack_glob(*f, base_name))
				return *p;
	return NULL;
}
