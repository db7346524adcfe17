/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/histogram.h"

#include "lib/base/macro.h"
#include "lib/base/search.h"

uint64_t histogram_end(unsigned bucket)
{
	/* Quarters of a power of two, by ratio: 1, 1.19, 1.41, 1.68. */
	static const uint64_t quarters[] = { 1024, 1218, 1448, 1722 };

	return bucket >= HISTOGRAM_BUCKETS - 1
		       ? UINT64_MAX
		       : quarters[bucket % 4] * (HISTOGRAM_FIRST_NS / 1024) << bucket / 4;
}

void histogram_add(struct histogram *h, uint64_t ns)
{
	h->buckets[SEARCH_FIRST(HISTOGRAM_BUCKETS - 1, i, histogram_end((unsigned)i) < ns)]++;
	h->n++;
	h->sum_ns += ns;
}

void histogram_merge(struct histogram *h, const struct histogram *other)
{
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		h->buckets[i] += other->buckets[i];
	h->n += other->n;
	h->sum_ns += other->sum_ns;
}

uint64_t histogram_percentile(const struct histogram *h, double percent)
{
	uint64_t rank = (uint64_t)((double)h->n * percent / 100), seen = 0;

	if (!h->n)
		return 0;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += h->buckets[i];
		if (seen > rank || seen == h->n)
			return i == HISTOGRAM_BUCKETS - 1 ? histogram_end(i - 1) : histogram_end(i);
	}
	return 0;
}
