/* SPDX-License-Identifier: Apache-2.0 */
/* Which Host headers are this daemon's. */
#include "daemon/rpc/host_header.h"

#include "tests/unit/check.h"

static bool is_own(const char *host)
{
	return host_header_is_own(host, "127.0.0.7", "metrics.example, node-7");
}

TEST(loopback_the_listener_and_configured_names_are_accepted)
{
	static const char *const own[] = { "localhost",      "LocalHost:9100", "127.0.0.1",
					   "127.0.0.1:9100", "127.9.9.9:1",    "127.0.0.7:9100",
					   "[::1]:9100",     "[::1]",          "metrics.example",
					   "Node-7:9100" };

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (!is_own(own[i])) {
			fprintf(stderr, "  refused: %s\n", own[i]);
			CHECK(!"accepted");
		}
}

TEST(a_name_of_another_page_is_refused)
{
	static const char *const others[] = { "attacker.example",
					      "attacker.example:9100",
					      "127.0.0.1.attacker.example",
					      "localhost.attacker.example",
					      "node-7.attacker.example",
					      "node-",
					      "metrics.example, node-7",
					      "10.0.0.1:9100",
					      "[2001:db8::1]:9100",
					      "127.0.0.1:9100@attacker.example",
					      "127.0.0.1:x",
					      "[::1",
					      "[::1]x",
					      "::1",
					      ":9100",
					      "," };
	char longest[2000];

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (is_own(others[i])) {
			fprintf(stderr, "  accepted: %s\n", others[i]);
			CHECK(!"refused");
		}
	CHECK(!is_own(""));
	memset(longest, 'a', sizeof(longest));
	longest[sizeof(longest) - 1] = 0;
	CHECK(!is_own(longest));
	CHECK(!host_header_is_own("node-7", "127.0.0.1", ""));
}

CHECK_MAIN()
