/* SPDX-License-Identifier: Apache-2.0 */
/* When operations without an end mark have ended at the latest: with their run. */
#pragma once

struct correlator;

/*
 * All records are read. Where an operation's run is on another thread, the operation's own thread
 * may have waited until its next one: such an operation ends at the latest with those runs of its
 * process that were active when it began. A run that lasts longer than the window is not seen: an
 * operation outside all other runs is evidence of one, and then no operation of the process gets
 * such an end. Since there may be one without evidence, these ends are marked as inferred.
 */
void op_bounds_apply(struct correlator *c);
