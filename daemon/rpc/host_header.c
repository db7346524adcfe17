/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/host_header.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HOST_MAX 256

/* The name or address without its port; false: malformed. */
static bool without_port(const char *host, char ret[static HOST_MAX])
{
	bool is_bracketed = *host == '[';
	size_t n = strcspn(host, is_bracketed ? "]" : ":");
	const char *end = host + n + (is_bracketed && host[n]);

	if (!n || n >= HOST_MAX || (is_bracketed && !host[n]))
		return false;
	if (*end == ':')
		end += 1 + strspn(end + 1, "0123456789");
	snprintf(ret, HOST_MAX, "%.*s", (int)(n - is_bracketed), host + is_bracketed);
	return !*end;
}

static bool is_listed(const char *name, const char *names)
{
	while (*names) {
		size_t n = strcspn(names, ",");

		if (n && strlen(name) == n && !strncasecmp(name, names, n))
			return true;
		names += n;
		names += strspn(names, ", ");
	}
	return false;
}

bool host_header_is_own(const char *host, const char *own_address, const char *names)
{
	char name[HOST_MAX];
	struct in6_addr six;
	struct in_addr four;

	if (!without_port(host, name))
		return false;
	if (inet_pton(AF_INET, name, &four) == 1)
		return ntohl(four.s_addr) >> 24 == 127 || !strcmp(name, own_address) ||
		       is_listed(name, names);
	if (inet_pton(AF_INET6, name, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six))
		return true;
	return !strcasecmp(name, "localhost") || is_listed(name, names);
}
