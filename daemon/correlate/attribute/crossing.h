/* SPDX-License-Identifier: Apache-2.0 */
/* Where the result of attribution is ambiguous. */
#pragma once

struct correlator;

/* Removes claims that are based on which thread wrote an answer, where the run may have worked for
 * another request and another run for this one. */
void crossing_take_back(struct correlator *c);
