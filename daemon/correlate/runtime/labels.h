/* SPDX-License-Identifier: Apache-2.0 */
/* What the server itself calls its threads' work. */
#pragma once

#include "daemon/correlate/runtime/nesting.h"

/* Different names, of stages too; what comes beyond these is shown by one. A server can make names
 * up. */
#define LABEL_NAMES_MAX 4096

void labels_open(struct correlator *c, const struct entry *e);
void labels_close(struct correlator *c, const struct entry *e);
/* What the thread is inside of goes on after that time, unseen. */
void labels_cut(struct correlator *c, struct thread_state *s, uint64_t time);
/* A name that a server made: an index into names. shown: NULL, or what viewers show. */
uint32_t labels_add_name(struct correlator *c, const char *name, const char *shown);
