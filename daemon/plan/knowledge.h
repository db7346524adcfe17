/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a process's runtime is known. */
#pragma once

#include "daemon/plan/plan.h"

/* Bits: of all files of a process together. */
enum {
	KNOWLEDGE_PLANNED = 1 << 0, /* they were planned; without it, nothing is known */
	KNOWLEDGE_WORK = 1 << 1,    /* functions where runs or operations begin */
	KNOWLEDGE_BY_RTTI = 1 << 2, /* functions that were found in virtual tables */
};

/* What the functions of runtimes in this file add, in a process of this release. */
unsigned knowledge_of_plan(const struct plan *plan, const char *release);
/* "exact", "by RTTI" or "requests only"; "": it was not planned. */
const char *knowledge_name(unsigned knowledge);
