/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unit test runner: a test is a function TEST(name_that_states_what_is_promised) { … CHECK(…);
 * … }. A test file ends with CHECK_MAIN(), and its program prints one line per test and "N passed,
 * N failed", and exits with 1 if one failed.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct check_test {
	const char *name;
	void (*run)(void);
	struct check_test *next;
};

static struct check_test *check_tests, **check_tail = &check_tests;
static int check_failures;

#define TEST(name_)                                                                                \
	static void name_(void);                                                                   \
	static struct check_test check_##name_ = { .name = #name_, .run = name_ };                 \
	__attribute__((constructor)) static void check_add_##name_(void)                           \
	{                                                                                          \
		*check_tail = &check_##name_;                                                      \
		check_tail = &check_##name_.next;                                                  \
	}                                                                                          \
	static void name_(void)

/*
 * With an allocation that fails (tests/faults) a test ends at its first failed check: what follows
 * relies on it.
 */
static inline void check_failed(void)
{
	check_failures++;
	if (getenv("FAULTS_FILE"))
		exit(1);
}

/* Notes a failure and continues with the test. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "  %s:%d: not true: %s\n", __FILE__, __LINE__,             \
				#condition);                                                       \
			check_failed();                                                            \
		}                                                                                  \
	} while (0)

/* Compares two integers and shows both when they differ. */
#define CHECK_EQ(a, b)                                                                             \
	do {                                                                                       \
		long long check_a_ = (long long)(a), check_b_ = (long long)(b);                    \
		if (check_a_ != check_b_) {                                                        \
			fprintf(stderr, "  %s:%d: %s is %lld, not %lld (%s)\n", __FILE__,          \
				__LINE__, #a, check_a_, check_b_, #b);                             \
			check_failed();                                                            \
		}                                                                                  \
	} while (0)

#define CHECK_STR(a, b)                                                                            \
	do {                                                                                       \
		const char *check_a_ = (a), *check_b_ = (b);                                       \
		if (!check_a_ || !check_b_ || strcmp(check_a_, check_b_)) {                        \
			fprintf(stderr, "  %s:%d: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, \
				#a, check_a_ ? check_a_ : "(null)",                                \
				check_b_ ? check_b_ : "(null)");                                   \
			check_failed();                                                            \
		}                                                                                  \
	} while (0)

/*
 * How many random cases a test tries: all, or, with sanitizers, where each takes up to a hundred
 * times as long, a changing selection. CHECK_LONG asks for ten times as many of those.
 */
static inline unsigned check_cases(unsigned all, unsigned some)
{
#ifdef __SANITIZE_ADDRESS__
	unsigned n = getenv("CHECK_LONG") ? 10 * some : some;

	return n < all ? n : all;
#else
	return all;
#endif
}

/* Where random cases begin: at 0 if all of them are tried, else given by CHECK_SEED or the time. */
static inline unsigned long long check_seed(void)
{
#ifdef __SANITIZE_ADDRESS__
	const char *text = getenv("CHECK_SEED");
	unsigned long long seed = text ? strtoull(text, NULL, 10) : (unsigned long long)time(NULL);

	printf("     CHECK_SEED=%llu\n", seed);
	return seed;
#else
	return 0;
#endif
}

static inline double check_now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#define CHECK_MAIN()                                                                               \
	int main(void)                                                                             \
	{                                                                                          \
		int passed = 0, failed = 0;                                                        \
		for (struct check_test *t = check_tests; t; t = t->next) {                         \
			double begun = check_now_s();                                              \
			check_failures = 0;                                                        \
			t->run();                                                                  \
			printf("%s %s  %.1f s\n", check_failures ? "FAIL" : "ok", t->name,         \
			       check_now_s() - begun);                                             \
			check_failures ? failed++ : passed++;                                      \
		}                                                                                  \
		printf("%d passed, %d failed\n", passed, failed);                                  \
		return failed ? 1 : 0;                                                             \
	}
