/* SPDX-License-Identifier: Apache-2.0 */
/* Runs, pieces and operations, by the frames that threads are inside of. */
#pragma once

#include "daemon/correlate/correlator.h"

/* work.c: runs, executors and operations, by the frames that threads are inside of. */
void work_on_probe(struct correlator *c, const struct record *record);
/* Notes when the thread did the first thing after it entered its top frame. */
void work_note_next(struct correlator *c, const struct record *record);
/* The window has closed: ends the frames that are left. */
void work_close(struct correlator *c, struct thread_state *s);
/* A process became another program: whatever its threads were inside of has ended. */
void work_end_process(struct correlator *c, uint32_t process, uint64_t time);
/* The probes of a kind went at that time. */
void work_shed(struct correlator *c, enum probe_kind kind, uint64_t time);
