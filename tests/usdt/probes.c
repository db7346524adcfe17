/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every form of the probes in include/tfprof.h, in what is both C and C++. Runs them as often as
 * the first argument says, and fails when an argument was not evaluated exactly once.
 */
#include <stdio.h>
#include <stdlib.h>

#include "include/tfprof.h"

enum colour { RED = 7, GREEN };
struct opaque;
#ifdef __cplusplus
enum class shade : signed char { DARK = -3 };
#endif

TFPROF_DEFINE_SEMAPHORE(tfprof_test, guarded);
TFPROF_DEFINE_SEMAPHORE(tfprof_test, unused_semaphore);

static int global_number = 4242;
static struct opaque *opaque_pointer;
int evaluations;

static int evaluate(int n)
{
	evaluations++;
	return n;
}

/* Three copies, at least, where it is inlined. */
static inline __attribute__((always_inline)) void inlined(long n)
{
	TFPROF_PROBE(tfprof_test, inlined, n);
}

__attribute__((noinline)) static void integers(signed char a, unsigned char b, short c,
					       unsigned short d, int e, unsigned int f)
{
	TFPROF_PROBE(tfprof_test, small, a, b, c, d, e, f);
}

__attribute__((noinline)) static void wide(long a, unsigned long b, long long c,
					   unsigned long long d, const volatile void *e)
{
	TFPROF_PROBE(tfprof_test, wide, a, b, c, d, e);
}

__attribute__((noinline)) static void kinds(enum colour colour, char *text,
					    const volatile int *number)
{
	static const char array[] = "array";

	TFPROF_PROBE(tfprof_test, kinds, colour, array, "literal", opaque_pointer, *number,
		     text + 1);
	TFPROF_PROBE(tfprof_test, memory, global_number, text, kinds);
#ifdef __cplusplus
	bool flag = colour == GREEN;
	TFPROF_PROBE(tfprof_test, cplusplus, flag, shade::DARK, L'x');
#endif
}

int main(int argc, char **argv)
{
	volatile int number = argc;
	long rounds = argc > 1 ? atol(argv[1]) : 1;

	for (long i = 0; i < rounds; i++) {
		TFPROF_PROBE(tfprof_test, none);
		TFPROF_PROBE(tfprof_test, constants, 5, -6, 0x123456789abcdefLL, 'x');
		TFPROF_PROBE(tfprof_test, once, evaluate(1));
		inlined(i);
		inlined(2);
		inlined(number);
		integers(-1, 200, -300, 60000, -70000, 4000000000u);
		wide(-5000000000, 5000000000ul, -1, 1ull << 63, &number);
		kinds(GREEN, argv[0], &number);
		if (TFPROF_ENABLED(tfprof_test, guarded))
			TFPROF_PROBE_SEMAPHORE(tfprof_test, guarded, i, "watched");
		TFPROF_PROBE_SEMAPHORE(tfprof_test, guarded);
	}
	printf("%d\n", evaluations);
	return evaluations == rounds ? 0 : 1;
}
