/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/discovery/target_file.h"

#include <stdio.h>

#include "daemon/plan/proof.h"
#include "lib/base/macro.h"

int target_file_open(struct proxy *proxy, pid_t pid, const struct target_file *file,
		     struct opened_file *ret)
{
	struct broker_message m = {
		.type = BROKER_OPEN, .pid = (uint32_t)pid, .start = file->start, .end = file->end
	};
	int r = proxy_call(proxy, &m, NULL, NULL);

	if (r >= 0)
		*ret = (struct opened_file){ .id = m.id,
					     .device = m.opened.device,
					     .inode = m.opened.inode,
					     .size = m.opened.size };
	return r;
}

void target_file_close(struct proxy *proxy, const struct opened_file *file)
{
	proxy_call_id(proxy, BROKER_CLOSE, file->id);
}

static unsigned n_planned; /* atomic: captures run in threads */

unsigned target_files_planned(void)
{
	return __atomic_load_n(&n_planned, __ATOMIC_RELAXED);
}

int target_file_plan(struct proxy *proxy, const struct opened_file *file,
		     const struct pack_set *set, enum plan_wanted wanted, struct plan **ret,
		     bool *ret_known, char *ret_text, size_t text_size)
{
	struct broker_message m = { .type = BROKER_PLAN,
				    .id = file->id,
				    .plan = { .packs = set->bits, .wanted = wanted } };
	_cleanup_close_ int proof = -1;
	unsigned n;
	int r;

	r = proxy_call(proxy, &m, &proof, &n);
	snprintf(ret_text, text_size, "%s", m.text);
	if (r < 0)
		return r;
	if (ret_known)
		*ret_known = m.plan.known;
	if (wanted == PLAN_WHOLE)
		__atomic_fetch_add(&n_planned, 1, __ATOMIC_RELAXED);
	return proof_read(proof, set, ret);
}

int target_file_look(struct proxy *proxy, pid_t pid, const struct target_file *file,
		     const struct pack_set *set, enum plan_wanted wanted, struct plan **ret)
{
	struct opened_file opened;
	char ignored[1];
	int r = target_file_open(proxy, pid, file, &opened);

	if (r < 0)
		return r;
	r = target_file_plan(proxy, &opened, set, wanted, ret, NULL, ignored, sizeof(ignored));
	target_file_close(proxy, &opened);
	return r;
}
