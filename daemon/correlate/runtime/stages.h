/* SPDX-License-Identifier: Apache-2.0 */
/* Stages of input pipelines, as they make their elements. */
#pragma once

#include "daemon/correlate/runtime/nesting.h"

void stages_open(struct correlator *c, const struct entry *e);
void stages_close(struct correlator *c, const struct entry *e);
