/* SPDX-License-Identifier: Apache-2.0 */
/* Entries into probed functions, by verb and kind of work of their rows. */
#pragma once

#include "daemon/correlate/correlator.h"

/* A record of an entry. */
void verbs_on_record(struct correlator *c, const struct record *record);
/* Notes when the thread did the first thing after it entered its top frame. */
void verbs_note_next(struct correlator *c, const struct record *record);
/* The window has closed: ends the frames that are left. */
void verbs_close(struct correlator *c);
/* A thread has ended, and what it was inside of. */
void verbs_end_thread(struct correlator *c, uint32_t thread, uint64_t time);
/* A process has become another program: all frames of its threads have ended. */
void verbs_end_process(struct correlator *c, uint32_t process, uint64_t time);
/* The probes of a kind were shed at that time. */
void verbs_shed(struct correlator *c, enum probe_kind kind, uint64_t time);
