/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that a thread switches on and off, such as blocks without gradients. */
#pragma once

#include <stdint.h>

struct correlator;
struct entry;

/* Of a thread. Zeros at first. */
struct run_switch {
	enum {
		SWITCH_UNKNOWN,
		SWITCH_OFF,
		SWITCH_ON,
		/* It is on at the first time that is known of it. It may have been before. */
		SWITCH_FOUND_ON,
	} state;
	uint64_t changed_ns; /* it has been in this state since */
	uint64_t seen_ns;    /* its last record */
};

void switches_on_entry(struct correlator *c, const struct entry *e);
/* The thread with this id has just been created. */
void switches_begin_thread(struct correlator *c, uint32_t tid);
/* Of the thread with this index nothing is known any more. */
void switches_forget(struct correlator *c, uint32_t thread);
