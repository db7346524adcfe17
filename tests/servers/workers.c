/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/servers/workers.h"

#include <errno.h>
#include <stdlib.h>

int workers_start(struct workers *w, size_t n, void *(*run)(void *argument), void *argument)
{
	int r = 0;

	w->threads = calloc(n, sizeof(*w->threads));
	if (!w->threads)
		return -ENOMEM;
	while (r >= 0 && w->n < n) {
		r = -pthread_create(&w->threads[w->n], NULL, run, argument);
		if (r >= 0)
			w->n++;
	}
	return r;
}

void workers_join(struct workers *w)
{
	for (size_t i = 0; i < w->n; i++)
		pthread_join(w->threads[i], NULL);
	free(w->threads);
	*w = (struct workers){ 0 };
}
