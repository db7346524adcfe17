/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/sheds.h"

bool sheds_note(struct sheds *s, enum probe_kind kind, uint64_t at_ns)
{
	if (s->kinds[kind].noted)
		return false;
	s->kinds[kind].noted = true;
	s->kinds[kind].at_ns = at_ns;
	s->n_pending++;
	return true;
}

bool sheds_next(struct sheds *s, uint64_t now_ns, enum probe_kind *ret_kind, uint64_t *ret_at_ns)
{
	for (enum probe_kind kind = 0; kind < KIND_COUNT; kind++) {
		if (!s->kinds[kind].noted || s->kinds[kind].in_effect ||
		    s->kinds[kind].at_ns > now_ns)
			continue;
		s->kinds[kind].in_effect = true;
		s->n_pending--;
		*ret_kind = kind;
		*ret_at_ns = s->kinds[kind].at_ns;
		return true;
	}
	return false;
}

bool sheds_has(const struct sheds *s, enum probe_kind kind)
{
	return s->kinds[kind].in_effect;
}
