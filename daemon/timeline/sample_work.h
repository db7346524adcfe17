/* SPDX-License-Identifier: Apache-2.0 */
/* Which work sampled threads did. */
#pragma once

#include "daemon/timeline/timeline.h"

/*
 * Gives each sample the innermost operation that its thread was in, and the request that the thread
 * worked for with its phase at that time: by the thread's runs and pieces of runs, otherwise by the
 * critical paths of requests. To be called when spans are sorted and requests have their phases.
 * -ENOMEM.
 */
int sample_work_find(struct timeline *t);
