/* SPDX-License-Identifier: Apache-2.0 */
/* Runs and their pieces. */
#pragma once

#include "daemon/correlate/runtime/nesting.h"

void runs_open(struct correlator *c, const struct entry *e);
void runs_close(struct correlator *c, const struct entry *e);
void pieces_enqueue(struct correlator *c, const struct entry *e);
void pieces_open(struct correlator *c, const struct entry *e);
void pieces_close(struct correlator *c, const struct entry *e);

/* The run, or batch, that the thread is working for: its own, or that of the piece whose work it
 * does; else a handler. NO_SPAN: none. */
uint64_t runs_of_thread(struct correlator *c, const struct thread_state *s);
/* The window has closed: of targets where no piece's run was found nothing is said of runs. */
void runs_check_links(struct correlator *c);
