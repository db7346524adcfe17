/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that threads switch on and off, such as blocks without gradients: what is known of each
 * thread's switch. A run that does not end before its thread begins other work is truncated there,
 * so that no other request's work is inside of it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/correlate/runtime/frames.h"

struct correlator;
struct entry;

/* Of a thread. Zeros at first. */
struct run_switch {
	enum {
		SWITCH_UNKNOWN,
		SWITCH_OFF,
		SWITCH_ON,
		/* It was on when it was first seen, and may have been before. */
		SWITCH_FOUND_ON,
	} state;
	uint64_t changed_ns; /* it has been in this state since */
	uint64_t seen_ns;    /* its last record */
};

/* Zeros at first. */
struct switches {
	/* By target: a switch was seen. Probes may not be attached before. */
	bool seen[RECORD_MAX_TARGETS];
};

enum switch_change {
	SWITCH_REPEATS,    /* nothing begins or ends */
	SWITCH_BEGINS,     /* a run begins */
	SWITCH_ENDS,       /* a run ends that has a frame */
	SWITCH_ENDS_FOUND, /* a run ends that has none, since it may have begun before it was seen
			    */
};

/* What the entry changes. *ret_since: for SWITCH_ENDS_FOUND, when the run was first seen. */
enum switch_change switches_change(struct correlator *c, const struct entry *e,
				   uint64_t *ret_since);
/* The frame of the run that the thread has switched on; FRAME_NONE. */
uint32_t switches_frame(const struct frames *frames);
/* The thread with this index begins other work. */
void switches_interrupt(struct correlator *c, uint32_t thread);
/* The thread with this id was created, or has ended. */
void switches_begin_thread(struct correlator *c, uint32_t tid);
void switches_end_thread(struct correlator *c, uint32_t tid);
