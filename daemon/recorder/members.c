/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/recorder/members.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

void members_free(struct member **list)
{
	while (*list) {
		struct member *m = *list;

		*list = m->next;
		free(m);
	}
}

int members_add(struct member **list, const struct target *target, bool keep)
{
	struct member *m;

	for (; *list; list = &(*list)->next)
		if ((*list)->target.pid == target->pid) {
			if (!keep)
				(*list)->target = *target;
			return 0;
		}
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->target = *target;
	*list = m;
	return 0;
}

unsigned members_add_living(struct member **list, const struct member *members, unsigned *left_out)
{
	unsigned n_ended = 0;

	for (const struct member *m = members; m; m = m->next)
		if (kill(m->target.pid, 0) < 0 && errno != EPERM)
			n_ended++;
		else if (members_add(list, &m->target, true) < 0)
			(*left_out)++;
	return n_ended;
}

void recorded_add(struct recorded *recorded, const struct target *target)
{
	if (recorded->n < RECORDED_MAX)
		recorded->processes[recorded->n++] =
			(struct recorded_process){ .pid = target->pid, .uid = target->uid };
	else
		recorded->has_more = true;
}

bool recorded_is_permitted(const struct recorded *recorded, const struct authority_peer *user,
			   pid_t *ret_pid)
{
	*ret_pid = 0;
	if (user->is_root)
		return true;
	if (recorded->has_more || user->scope)
		return false;
	for (unsigned i = 0; i < recorded->n; i++)
		if (recorded->processes[i].uid != user->uid) {
			*ret_pid = recorded->processes[i].pid;
			return false;
		}
	return true;
}
