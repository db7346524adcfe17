/* SPDX-License-Identifier: Apache-2.0 */
/* What a session cannot show, a sentence each. */
#pragma once

#include <stdint.h>

#include "daemon/capture/budget/forecast.h"
#include "daemon/capture/drain.h"
#include "daemon/capture/prepare.h"

#define SESSION_WARNINGS_MAX 32

/* Zeros at first. */
struct session_warnings {
	char *texts[SESSION_WARNINGS_MAX];
	unsigned n;
	/* A bit for each warning that repeats another line of the summary. */
	uint32_t restating;
};

__attribute__((format(printf, 2, 3))) void warnings_add(struct session_warnings *w,
							const char *format, ...);
/* A warning that repeats another line of the summary. */
void warnings_restate(struct session_warnings *w, const char *text);
/* Adds what the probes of a target miss, and which of them are expensive. */
void warnings_of_probes(struct session_warnings *w, const struct prepared *p,
			const struct detail *detail, const struct forecast *forecast);
/* The capture slows down every system call of the host. */
void warnings_of_calls(struct session_warnings *warnings, const struct forecast *forecast);
/* Stacks of which callers are missing. */
void warnings_of_stacks(struct session_warnings *w, const struct drain *drain);
void warnings_done(struct session_warnings *w);
