/* SPDX-License-Identifier: Apache-2.0 */
/* When threads ran, why they left, who woke them; their names. */
#pragma once

#include "daemon/correlate/correlator.h"

void threads_on_switch(struct correlator *c, const struct record_switch *record);
void threads_on_wake(struct correlator *c, const struct record_wake *record);
void threads_on_thread(struct correlator *c, const struct record_thread *record);
void threads_on_foreign(struct correlator *c, const struct record_thread *record);
void threads_add_slice(struct correlator *c, uint32_t thread, uint64_t end, uint32_t reason);
/* The scheduler's records end at that time. */
void threads_shed(struct correlator *c, uint64_t time);
void threads_end_off_span(struct correlator *c, struct thread_state *s, uint64_t time);
