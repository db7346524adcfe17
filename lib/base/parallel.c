/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/parallel.h"

#include <pthread.h>

#include "lib/base/macro.h"

struct parallel {
	void (*work)(unsigned i, void *data);
	void *data;
	unsigned n;
	unsigned next; /* that no thread has taken yet */
};

static void *run_some(void *data)
{
	struct parallel *p = data;
	unsigned i;

	while ((i = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED)) < p->n)
		p->work(i, p->data);
	return NULL;
}

void parallel_run(unsigned n_threads, unsigned n, void (*work)(unsigned i, void *data), void *data)
{
	struct parallel p = { .work = work, .data = data, .n = n };
	unsigned wanted = MIN(MIN(n_threads, n), PARALLEL_MAX), started = 0;
	pthread_t threads[PARALLEL_MAX];

	while (started + 1 < wanted && pthread_create(&threads[started], NULL, run_some, &p) == 0)
		started++;
	run_some(&p);
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}
