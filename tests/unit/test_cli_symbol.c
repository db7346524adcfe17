/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions as tfprofctl shows them. */
#include "cli/report/symbol.c"

#include <stdbool.h>

#include "lib/elf/demangle.c"
#include "tests/unit/check.h"

static void check_fit(const char *text, size_t size, const char *expected)
{
	char *fitting = symbol_fit(text, size);

	CHECK_STR(fitting, expected);
	CHECK(fitting && strlen(fitting) <= size);
	free(fitting);
}

TEST(mangled_names_are_demangled)
{
	_cleanup_free_ char *plain = symbol_demangle("_ZN3app6Server3RunEi");
	_cleanup_free_ char *template =
		symbol_demangle("_ZN3app5QueueINS_12_GLOBAL__N_14TaskEE3putERKS2_");

	CHECK_STR(plain, "app::Server::Run(int)");
	CHECK_STR(
		template,
		"app::Queue<app::(anonymous namespace)::Task>::put(app::(anonymous namespace)::Task const&)");
}

TEST(other_names_are_not_demangled)
{
	static const char *const names[] = { "",    "main",       "_Z",
					     "_ZN", "_ZN9999999", "app::Server, slot 3",
					     "i" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK(!symbol_demangle(names[i]));
}

/* f(b, a<b, b>, …): each argument holds the one before twice, so that the last one has 2^18 parts.
 */
TEST(names_with_too_many_references_are_not_demangled)
{
	static const char ids[] = "123456789ABCDEFGHI";
	char name[400], *p = stpcpy(name, "_Z1f1b1aIS_S_E");

	for (size_t i = 0; i < strlen(ids); i++)
		p += sprintf(p, "S0_IS%c_S%c_E", ids[i], ids[i]);
	CHECK(!symbol_demangle(name));
	CHECK_EQ(count_references("_Z1fS_S0_SZ_T_T0_"), 5);
	CHECK_EQ(count_references("_Z1fStSsSaT"), 0);
}

/* Whether a function with a name of this length is demangled. */
static bool is_read(unsigned int length)
{
	char symbol[1200], *p = symbol + sprintf(symbol, "_Z%u", length);
	_cleanup_free_ char *name = NULL;

	memset(p, 'a', length);
	strcpy(p + length, "v");
	name = symbol_demangle(symbol);
	return name;
}

TEST(names_of_more_than_a_kilobyte_are_not_demangled)
{
	CHECK(is_read(1000));
	CHECK(!is_read(1100));
}

TEST(a_name_that_fits_is_kept)
{
	check_fit("app::Server::Run(int)", 21, "app::Server::Run(int)");
	check_fit("a::(anonymous namespace)::b()", 40, "a::(anonymous namespace)::b()");
}

TEST(a_name_that_does_not_fit_loses_its_least_informative_parts)
{
	check_fit("a::(anonymous namespace)::b(int)", 20, "a::b(int)");
	check_fit("app::Server::Run(app::Request const&, app::Reply*)", 30,
		  "app::Server::Run(...)");
	check_fit("std::function<void (int)>::call(std::pair<int (*)(), long>)", 40,
		  "std::function<void (int)>::call(...)");
	check_fit("app::ServerWithAVeryLongName::Run()", 20, "app::...gName::Run()");
	check_fit("_ZN3app6ServerWithAVeryLongNameE", 20, "_ZN3a...eryLongNameE");
	check_fit(")))))))))))))))))))))))))", 10, "))...)))))");
	check_fit("((((((((((((((((((((((((((((", 10, "((...(((((");
}

CHECK_MAIN()
