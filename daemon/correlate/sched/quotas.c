/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/sched/quotas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/correlator.h"
#include "lib/base/macro.h"

/* A thread that waits for longer than these is treated as if it had waited for them. */
#define RENEWALS_KEPT 8
/* Quotas, each on some CPUs. */
#define RENEWALS_MAX 65536
#define PATH_SIZE (RECORD_CGROUP_NAMES * (RECORD_CGROUP_NAME_SIZE + 1) + sizeof("…"))

/* Of the quota of one cgroup on one CPU. */
struct renewals {
	uint64_t n;
	uint64_t at_ns[RENEWALS_KEPT]; /* of the last ones, as a ring */
};

int64_t quotas_get(struct correlator *c, uint32_t cgroup)
{
	struct timeline *t = c->t;

	if (!cgroup)
		return -1;
	for (uint32_t i = 0; i < t->n_quotas; i++)
		if (c->quotas.cgroups[i] == cgroup)
			return i;
	if (t->n_quotas == TIMELINE_QUOTAS_MAX)
		return -1;
	c->quotas.cgroups[t->n_quotas] = cgroup;
	t->quotas[t->n_quotas] = (struct quota){ .name = TEXT_NONE };
	return t->n_quotas++;
}

/* "/parent/name", or "…/parent/name" if there are more above. */
static void write_path(const struct record_quota *r, char path[static PATH_SIZE])
{
	size_t size = 0;

	if (r->is_deeper)
		size = (size_t)snprintf(path, PATH_SIZE, "…");
	for (unsigned i = RECORD_CGROUP_NAMES; i-- > 0;) {
		size_t length = strnlen(r->names[i], RECORD_CGROUP_NAME_SIZE - 1);

		if (!length)
			continue;
		path[size++] = '/';
		memcpy(path + size, r->names[i], length);
		size += length;
	}
	if (!size)
		path[size++] = '/';
	path[size] = '\0';
}

void quotas_on_record(struct correlator *c, const struct record_quota *r)
{
	int64_t index = quotas_get(c, r->cgroup);
	struct quota *quota = index < 0 ? NULL : &c->t->quotas[index];
	char path[PATH_SIZE];

	if (!quota)
		return;
	quota->quota_ns = r->quota_ns;
	quota->period_ns = r->period_ns;
	/* One cgroup has one name, so that a target that renames it cannot fill the names. */
	if (quota->name != TEXT_NONE)
		return;
	write_path(r, path);
	quota->name = correlator_name(c, path);
}

static uint64_t cpu_key(int64_t quota, uint16_t cpu)
{
	return (uint64_t)quota << 16 | cpu;
}

static struct renewals *find(const struct correlator *c, int64_t quota, uint16_t cpu)
{
	const uint64_t *found = map_get(&c->quotas.of_cpu, cpu_key(quota, cpu));

	return found ? &c->quotas.renewals[*found] : NULL;
}

uint64_t quotas_renewals(const struct correlator *c, int64_t quota, uint16_t cpu)
{
	const struct renewals *r = find(c, quota, cpu);

	return r ? r->n : 0;
}

void quotas_renew(struct correlator *c, int64_t quota, uint16_t cpu, uint64_t now)
{
	struct quotas *q = &c->quotas;
	struct renewals *r = find(c, quota, cpu);

	if (!r && q->n == RENEWALS_MAX)
		return;
	if (!r) {
		r = correlator_grow(c, q->renewals, &q->size, q->n, sizeof(*r));
		if (!r)
			return;
		q->renewals = r;
		correlator_put(c, &q->of_cpu, cpu_key(quota, cpu), q->n);
		if (c->error)
			return;
		r = &q->renewals[q->n++];
		*r = (struct renewals){};
	}
	r->at_ns[r->n++ % RENEWALS_KEPT] = now;
}

uint64_t quotas_renewed_ns(const struct correlator *c, int64_t quota, uint16_t cpu,
			   uint64_t renewals)
{
	const struct renewals *r = find(c, quota, cpu);

	if (!r || r->n <= renewals)
		return 0;
	return r->at_ns[MAX(renewals, r->n - MIN(r->n, (uint64_t)RENEWALS_KEPT)) % RENEWALS_KEPT];
}

void quotas_done(struct quotas *q)
{
	free(q->renewals);
	map_done(&q->of_cpu);
}
