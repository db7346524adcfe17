/* SPDX-License-Identifier: Apache-2.0 */
/* A list of the system calls that a process may make. Any other one kills the process. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Instructions: the architecture, the number, two or five for each call, and the end. */
#define FILTER_MAX 600

struct filter {
	struct sock_filter code[FILTER_MAX];
	unsigned n;
	bool full;
};

void filter_begin(struct filter *f);
void filter_allow(struct filter *f, const uint16_t *calls, size_t n);
/* Allowed if the lower half of this argument (0 to 5), masked, has this value. Several conditions
 * of one call: one of them suffices. */
void filter_allow_if(struct filter *f, uint16_t call, unsigned argument, uint32_t mask,
		     uint32_t value);
/* The call fails with this error, and the process goes on. */
void filter_refuse(struct filter *f, uint16_t call, uint16_t error);
/* For all threads of the process, and for good. no_new_privs must be set. 0, -E2BIG, or an error of
 * seccomp. */
int filter_apply(struct filter *f);
