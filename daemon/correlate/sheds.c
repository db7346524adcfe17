/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/sheds.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/array.h"

int sheds_note(struct sheds *s, enum probe_kind kind, bool is_shed, uint64_t at_ns)
{
	if (s->is_shed[kind] == is_shed)
		return 0;
	if (!sheds_pending(s))
		s->n = s->n_done = 0;
	if (array_reserve(&s->changes, s->n, &s->allocated, sizeof(s->changes[0]), 1) < 0)
		return -ENOMEM;
	s->changes[s->n++] = (struct shed_change){ at_ns, kind, is_shed };
	s->is_shed[kind] = is_shed;
	return 1;
}

bool sheds_next(struct sheds *s, uint64_t now_ns, struct shed_change *ret)
{
	if (!sheds_pending(s) || s->changes[s->n_done].at_ns > now_ns)
		return false;
	*ret = s->changes[s->n_done++];
	s->in_effect[ret->kind] = ret->is_shed;
	return true;
}

bool sheds_has(const struct sheds *s, enum probe_kind kind)
{
	return s->in_effect[kind];
}

void sheds_done(struct sheds *s)
{
	free(s->changes);
	*s = (struct sheds){};
}
