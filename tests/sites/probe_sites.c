/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts probes at the sites of real functions in a live process.
 *   probe_sites check LIBRARY...               checks libraries made by generate.py, and what a
 *                                              nop in a red zone does
 *   probe_sites call LIBRARY                   reads lines "FUNCTION COUNT", calls so often, and
 *                                              prints ns per call
 *   probe_sites attach LIBRARY PID FUNCTION... counts the hits of the functions' sites in a
 *   process until SIGTERM
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/base/macro.h"
#include "tests/sites/library.h"
#include "tests/sites/property.h"
#include "tests/sites/red_zone.h"

static int check(int n, char *paths[])
{
	unsigned passed = 0, failed = 0;

	for (int i = 0; i < n; i++)
		property_check(paths[i]) ? passed++ : failed++;
	if (n > 0)
		property_summarise() ? passed++ : failed++;
	red_zone_check(&passed, &failed);
	printf("%u passed, %u failed\n", passed, failed);
	return failed ? 1 : 0;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int call(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW);
	char name[128];
	unsigned long count;

	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	puts("ready");
	fflush(stdout);
	while (scanf("%127s %lu", name, &count) == 2) {
		uint64_t (*function)(uint64_t, uint64_t) =
			(uint64_t(*)(uint64_t, uint64_t))dlsym(handle, name);
		uint64_t begun;

		if (!function || !count) {
			fprintf(stderr, "no function %s\n", name);
			return 1;
		}
		begun = now_ns();
		for (unsigned long i = 0; i < count; i++)
			function(i, 3);
		printf("%.2f\n", (double)(now_ns() - begun) / (double)count);
		fflush(stdout);
	}
	return 0;
}

static int attach(const char *path, pid_t pid, int n, char *names[])
{
	struct trace *trace;
	sigset_t signals;
	int number, r;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	r = trace_new(NULL, &trace);
	if (r < 0) {
		fprintf(stderr, "cannot load a program: %s\n", strerror(-r));
		return 1;
	}
	for (int i = 0; i < n; i++) {
		struct library library;
		uint64_t offset;

		r = library_open(path, names[i], NULL, SITE_RDI | SITE_RSI, &library);
		if (r < 0 || library.n != 1 || library.chosen[0].site.class == SITE_REFUSED) {
			fprintf(stderr, "no site for %s\n", names[i]);
			return 1;
		}
		offset = library.chosen[0].offset + library.chosen[0].site.offset;
		/* Its link stays until the process ends. */
		r = trace_attach(trace, pid, library.fd, &offset, NULL, 1);
		if (r < 0) {
			fprintf(stderr, "cannot attach to %s: %s\n", names[i], strerror(-r));
			return 1;
		}
		printf("%s at +%u: %s\n", names[i], library.chosen[0].site.offset,
		       library.chosen[0].site.text);
		library_close(&library);
	}
	printf("attached %d sites\n", n);
	fflush(stdout);
	sigwait(&signals, &number);
	printf("counted %llu\n", (unsigned long long)trace_counted(trace));
	trace_free(trace);
	return 0;
}

int main(int argc, char *argv[])
{
	if (argc >= 2 && !strcmp(argv[1], "check"))
		return check(argc - 2, argv + 2);
	if (argc == 3 && !strcmp(argv[1], "call"))
		return call(argv[2]);
	if (argc >= 5 && !strcmp(argv[1], "attach"))
		return attach(argv[2], (pid_t)strtol(argv[3], NULL, 10), argc - 4, argv + 4);
	fputs("Usage: probe_sites check LIBRARY... | call LIBRARY | attach LIBRARY PID FUNCTION...\n",
	      stderr);
	return 2;
}
