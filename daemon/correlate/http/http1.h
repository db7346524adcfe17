/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that follow each other. */
#pragma once

#include "daemon/correlate/correlator.h"

/* http1.c, http2.c */
void http1_on_message(struct correlator *c, uint32_t connection, const struct record_message *m);
