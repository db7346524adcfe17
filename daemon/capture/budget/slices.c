/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/budget/slices.h"

/* Probes cost until they are detached: so much more than in the shortest slice, about. */
#define DETACH_SHARE 0.5
/* How many of the shortest slices the budget saves at most: hours without load do not pay for a
 * long time in which nothing is saved. */
#define SAVED_MAX 10

/* xorshift64*: the distances only have to be independent of what the target does. */
static double draw(struct slices *s)
{
	s->random ^= s->random >> 12;
	s->random ^= s->random << 25;
	s->random ^= s->random >> 27;
	return (double)(s->random * 0x2545f4914f6cdd1dull >> 11) / (double)(1ull << 53);
}

/* The cost of a slice for each nanosecond of it. */
static double rate_now(const struct slices *s, uint64_t now_ns, double cost_ns)
{
	uint64_t on_ns = s->on_ns + (s->is_on ? now_ns - s->changed_ns : 0);

	return on_ns < SLICE_NS ? s->rate * (1 + DETACH_SHARE)
				: (cost_ns - s->base_ns) / (double)on_ns;
}

void slices_begin(struct slices *s, uint64_t now_ns, double cost_ns, double rate)
{
	double before = s->begun ? rate_now(s, now_ns, cost_ns) / (1 + DETACH_SHARE) : 0;

	*s = (struct slices){ .begun = true,
			      .changed_ns = now_ns,
			      .rate = before + rate,
			      .forgone_ns = s->forgone_ns,
			      .random = s->begun ? s->random : now_ns | 1 };
	s->wanted = 1 + draw(s);
}

enum slices_verdict slices_check(struct slices *s, uint64_t now_ns, double cost_ns, double saved_ns)
{
	double each = rate_now(s, now_ns, cost_ns) * (double)SLICE_NS;

	saved_ns -= s->forgone_ns;
	if (saved_ns > SAVED_MAX * each) {
		s->forgone_ns += saved_ns - SAVED_MAX * each;
		saved_ns = SAVED_MAX * each;
	}
	if (now_ns - s->changed_ns < SLICE_NS)
		return SLICES_STAY;
	if (s->is_on)
		return saved_ns < each ? SLICES_PAUSE : SLICES_STAY;
	return saved_ns >= s->wanted * each ? SLICES_RESUME : SLICES_STAY;
}

void slices_changed(struct slices *s, uint64_t now_ns, double cost_ns)
{
	if (s->is_on) {
		s->on_ns += now_ns - s->changed_ns;
		/* Never less than a slice costs, and on average half of another one more. */
		s->wanted = 1 + draw(s);
	} else if (!s->on_ns) {
		s->base_ns = cost_ns;
	}
	s->is_on = !s->is_on;
	s->changed_ns = now_ns;
}
