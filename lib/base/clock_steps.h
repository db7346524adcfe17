/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of the system clock: somebody sets it, while CLOCK_MONOTONIC goes on. Corrections of its
 * rate change both clocks alike. Time stays as the clock had it before a step: what was measured
 * before and after it can then be compared.
 */
#pragma once

#include <stdint.h>

/* Beyond that the oldest step is forgotten. */
#define CLOCK_STEPS_MAX 8
/* Two readings differ by less. */
#define CLOCK_STEP_MIN_NS 5000000

struct clock_steps {
	uint64_t offset; /* Unix time minus CLOCK_MONOTONIC, as clock_unix_offset() */
	struct clock_step {
		uint64_t at_ns; /* CLOCK_MONOTONIC, when it was noticed */
		int64_t by_ns;  /* forward */
	} list[CLOCK_STEPS_MAX];
	unsigned n;
};

/* Notes a step if the offset is another one than before; now of CLOCK_MONOTONIC. The first look, at
 * zeroes, has none. */
void clock_steps_look(struct clock_steps *steps, uint64_t now, uint64_t offset);
/* The offset at a time of CLOCK_MONOTONIC. */
uint64_t clock_steps_offset_at(const struct clock_steps *steps, uint64_t time);
