/* SPDX-License-Identifier: Apache-2.0 */
/* Independent pieces of work in several threads at once. */
#pragma once

/* At most so many threads, the caller's among them. */
#define PARALLEL_MAX 16u

/*
 * Calls work(i, data) for each i below n, in this thread and in up to n_threads - 1 others, and
 * returns when all are done. Each thread takes the next piece when it is done with one: which does
 * which is not determined. A thread that cannot be started is done without.
 */
void parallel_run(unsigned n_threads, unsigned n, void (*work)(unsigned i, void *data), void *data);
