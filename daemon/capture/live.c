/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/live.h"

#include "lib/base/macro.h"

void live_init(struct live *live)
{
	*live = (struct live){};
	pthread_mutex_init(&live->lock, NULL);
}

void live_done(struct live *live)
{
	pthread_mutex_destroy(&live->lock);
}

void live_begin(struct live *live, uint64_t now)
{
	pthread_mutex_lock(&live->lock);
	live->since_ns = now;
	for (unsigned i = 0; i < live->n; i++)
		live->latencies[i] = (struct histogram){};
	live->n = 0;
	pthread_mutex_unlock(&live->lock);
}

void live_set_target(struct live *live, unsigned target, pid_t pid)
{
	pthread_mutex_lock(&live->lock);
	live->pids[target] = pid;
	live->n = MAX(live->n, target + 1);
	pthread_mutex_unlock(&live->lock);
}

void live_add(struct live *live, unsigned target, uint64_t latency_ns)
{
	pthread_mutex_lock(&live->lock);
	if (target < live->n)
		histogram_add(&live->latencies[target], latency_ns);
	pthread_mutex_unlock(&live->lock);
}

bool live_get(struct live *live, pid_t pid, struct histogram *ret, uint64_t *ret_since_ns)
{
	bool found = false;

	pthread_mutex_lock(&live->lock);
	for (unsigned i = 0; i < live->n && live->since_ns; i++)
		if (live->pids[i] == pid) {
			histogram_merge(ret, &live->latencies[i]);
			*ret_since_ns = live->since_ns;
			found = true;
		}
	pthread_mutex_unlock(&live->lock);
	return found;
}
