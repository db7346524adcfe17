/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proto/phase.h"

#include "proto/control.pb-c.h"

#define TEXTS(id, key, label, stage, stage_name)                                                   \
	[PHASE_##id] = { key, label, PHASE_##stage, stage_name },
const struct phase_text phase_texts[PHASE_COUNT] = { PHASE_TABLE(TEXTS) };

#define SAME_NUMBER(id, key, label, stage, stage_name)                                             \
	_Static_assert((int)PHASE_##id == (int)TFPROFD__PHASE__PHASE_##id, #id);
PHASE_TABLE(SAME_NUMBER)
