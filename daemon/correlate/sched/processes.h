/* SPDX-License-Identifier: Apache-2.0 */
/* Which process a thread belongs to, and its name; what ends with a process. */
#pragma once

#include "include/record_types.h"

struct correlator;

/* A thread of a target began, ended, executed another program, or is there when the window closes.
 */
void processes_on_thread(struct correlator *c, const struct record_thread *record);
/* A thread of another process, which a target's thread waited for. */
void processes_on_foreign(struct correlator *c, const struct record_thread *record);
