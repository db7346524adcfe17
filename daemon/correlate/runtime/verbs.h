/* SPDX-License-Identifier: Apache-2.0 */
/* Entries into probed functions, by what their rows say: which verb, on which kind of work. */
#pragma once

#include "daemon/correlate/correlator.h"

/* A record of an entry. */
void verbs_on_record(struct correlator *c, const struct record *record);
/* Notes when the thread did the first thing after it entered its top frame. */
void verbs_note_next(struct correlator *c, const struct record *record);
/* The window has closed: ends the frames that are left. */
void verbs_close(struct correlator *c, struct thread_state *s);
/* A process became another program: whatever its threads were inside of has ended. */
void verbs_end_process(struct correlator *c, uint32_t process, uint64_t time);
/* The probes of a kind went at that time. */
void verbs_shed(struct correlator *c, enum probe_kind kind, uint64_t time);
