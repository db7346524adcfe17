/* SPDX-License-Identifier: Apache-2.0 */
/* Burns one CPU until SIGTERM or SIGINT, so that other threads on it must wait: hog CPU [NAME]. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

int main(int argc, char **argv)
{
	cpu_set_t set;
	char *end;
	long cpu = argc >= 2 ? strtol(argv[1], &end, 10) : -1;

	if (argc < 2 || argc > 3 || !*argv[1] || *end || cpu < 0 || cpu >= CPU_SETSIZE) {
		fprintf(stderr, "usage: hog CPU [NAME]\n");
		return 2;
	}
	prctl(PR_SET_NAME, argc == 3 ? argv[2] : "hog");
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0) {
		fprintf(stderr, "hog: cannot run on CPU %ld: %m\n", cpu);
		return 1;
	}
	puts("ready");
	fflush(stdout);
	for (volatile unsigned long i = 0;; i++)
		;
}
