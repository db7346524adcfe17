/* SPDX-License-Identifier: Apache-2.0 */
/* The names of operations. */
#pragma once

#include "daemon/correlate/correlator.h"

void objects_on_name(struct correlator *c, const struct record_name *record);
void objects_on_object(struct correlator *c, const struct record_object *record);
