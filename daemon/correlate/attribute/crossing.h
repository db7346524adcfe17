/* SPDX-License-Identifier: Apache-2.0 */
/* Where what attribution found can be meant otherwise. */
#pragma once

#include "daemon/correlate/correlator.h"

/* Takes back claims by who wrote an answer, where the run can have been another request's and the
 * answer another run's. */
void crossing_take_back(struct correlator *c);
