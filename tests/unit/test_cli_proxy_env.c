/* SPDX-License-Identifier: Apache-2.0 */
/* When TensorBoard's client connects to the daemon through a proxy. */
#include "cli/connect/proxy_env.c"

#include "tests/unit/check.h"

static char *none(const char *name)
{
	return NULL;
}

static char *http(const char *name)
{
	return !strcmp(name, "http_proxy") ? (char *)"http://proxy:3128" : NULL;
}

static char *both(const char *name)
{
	return !strcmp(name, "grpc_proxy") ? (char *)"http://other:1" : http(name);
}

static char *empty(const char *name)
{
	return !strcmp(name, "http_proxy") ? (char *)"" : NULL;
}

static char *upper_case(const char *name)
{
	return !strcmp(name, "HTTP_PROXY") ? (char *)"http://proxy:3128" : NULL;
}

static const char *exceptions;

static char *with_exceptions(const char *name)
{
	return !strcmp(name, "no_proxy") ? (char *)exceptions : http(name);
}

static char *grpc_exceptions_first(const char *name)
{
	return !strcmp(name, "no_grpc_proxy") ? (char *)"example.com" : with_exceptions(name);
}

TEST(without_a_proxy_there_is_no_finding)
{
	CHECK(!proxy_env_find(none));
	CHECK(!proxy_env_find(empty));
	CHECK(!proxy_env_find(upper_case));
}

TEST(the_effective_variable_is_named)
{
	CHECK_STR(proxy_env_find(http), "http_proxy");
	CHECK_STR(proxy_env_find(both), "grpc_proxy");
}

TEST(localhost_among_the_exceptions_is_enough)
{
	static const char *const good[] = { "localhost", "127.0.0.1,localhost", " localhost , x",
					    "LOCALHOST", "x,,localhost" };
	static const char *const bad[] = { "",  "127.0.0.1", "localhost.example.com", "mylocalhost",
					   ",", "*" };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		exceptions = good[i];
		CHECK(!proxy_env_find(with_exceptions));
		/* The first of the two that is set is the only one. */
		CHECK_STR(proxy_env_find(grpc_exceptions_first), "http_proxy");
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		exceptions = bad[i];
		CHECK_STR(proxy_env_find(with_exceptions), "http_proxy");
	}
}

CHECK_MAIN()
