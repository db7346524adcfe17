/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls of each role. */
#pragma once

#include "daemon/sandbox/filter.h"

/* directory: where it writes files, -1: nowhere. */
void calls_of_front(struct filter *f, int directory);
/* Those of the process that starts readers of files, and those of a reader. */
void calls_of_prover(struct filter *f);
void calls_of_reader(struct filter *f);
/* writable: the same, as many as there are. */
void calls_of_broker(struct filter *f, const int *writable, size_t n);
