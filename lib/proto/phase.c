/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proto/phase.h"

#include "proto/control.pb-c.h"

#define NAMES(id, key, label, stage) [PHASE_ROW_##id] = { key, label, stage },
const struct phase_text phase_texts[PHASE_ROWS] = { PHASE_TABLE(NAMES) };

#define SAME_NUMBER(id, key, label, stage)                                                         \
	_Static_assert((int)PHASE_ROW_##id == (int)TFPROFD__PHASE__PHASE_##id, #id);
PHASE_TABLE(SAME_NUMBER)
