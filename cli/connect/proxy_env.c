/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/connect/proxy_env.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "lib/base/macro.h"

/* The host of the addresses that tfprofctl targets prints. */
static const char host[] = "localhost";

static const char *first_set(char *(*get)(const char *name), const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *value = get(names[i]);

		if (value && *value)
			return names[i];
	}
	return NULL;
}

/* An entry applies to every host that ends with it. */
static bool names_host(const char *list)
{
	while (*list) {
		size_t blanks = strspn(list, ", \t"), size = strcspn(list + blanks, ", \t");

		list += blanks;
		if (size && size < sizeof(host) &&
		    !strncasecmp(&host[sizeof(host) - 1 - size], list, size))
			return true;
		list += size;
	}
	return false;
}

const char *proxy_env_find(char *(*get)(const char *name))
{
	static const char *const proxies[] = { "grpc_proxy", "https_proxy", "http_proxy" };
	static const char *const exceptions[] = { "no_grpc_proxy", "no_proxy" };
	const char *proxy = first_set(get, proxies, ARRAY_SIZE(proxies));
	const char *except = first_set(get, exceptions, ARRAY_SIZE(exceptions));

	return proxy && except && names_host(get(except)) ? NULL : proxy;
}
