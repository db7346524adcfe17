/* SPDX-License-Identifier: Apache-2.0 */
/* What the handlers of requests were called with. */
#pragma once

#include "daemon/correlate/correlator.h"

/* handlers.c: what the handlers of requests were called with. */
void handlers_set_path(struct correlator *c, uint64_t span, const struct record_text *record);
/* The span's name says it, too. */
void handlers_set_model(struct correlator *c, uint64_t span, const struct record_text *record);
