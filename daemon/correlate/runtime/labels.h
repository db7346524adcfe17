/* SPDX-License-Identifier: Apache-2.0 */
/* What the server itself calls its threads' work. */
#pragma once

#include "daemon/correlate/correlator.h"

/* labels.c: what the server itself calls its threads' work. */
void labels_begin(struct correlator *c, uint32_t thread, const struct record_text *record);
void labels_end(struct correlator *c, uint32_t thread, uint64_t time);
/* What the thread is inside of goes on after that time, unseen. */
void labels_close(struct correlator *c, struct thread_state *s, uint64_t time);
/* What an iterator of a pipeline is called, an index into names. */
uint32_t labels_name_iterator(struct correlator *c, const struct record_text *record);
