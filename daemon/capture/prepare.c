/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/prepare.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/loop.h"
#include "lib/base/macro.h"
#include "lib/proc/seccomp.h"

/* The prover has less time for a file, but others may be read before it. */
#define PLAN_NS 120000000000ull
#define ASK_AGAIN_MS 1

/* Waits until the file was read. */
static int wait_for_plan(struct proxy *proxy, const struct pack_set *set,
			 struct prepared_file *file, char *text, size_t text_size)
{
	uint64_t end = loop_now() + PLAN_NS;
	int r;

	for (;;) {
		r = target_file_plan(proxy, &file->opened, set, PLAN_WHOLE, &file->plan,
				     &file->known, text, text_size);
		if ((r != -EINPROGRESS && r != -EBUSY) || loop_now() > end)
			return r == -EINPROGRESS ? -ETIMEDOUT : r;
		poll(NULL, 0, ASK_AGAIN_MS);
	}
}

static int prepare_file(struct proxy *proxy, const struct target *target,
			const struct target_file *file, struct prepared_file *ret, char *text,
			size_t text_size)
{
	char reason[96];
	int r;

	*ret = (struct prepared_file){};
	r = target_file_open(proxy, target->pid, file, &ret->opened);
	if (r < 0) {
		snprintf(text, text_size, "cannot open %.120s of process %d: %s", file->path,
			 target->pid, strerror(-r));
		return r;
	}
	r = wait_for_plan(proxy, target->packs, ret, reason, sizeof(reason));
	if (r < 0) {
		snprintf(text, text_size, "cannot read %.120s: %s", file->path,
			 *reason ? reason : strerror(-r));
		target_file_close(proxy, &ret->opened);
	}
	return r;
}

int prepare_target(struct proxy *proxy, const struct target *target, struct prepared *ret,
		   char *ret_text, size_t text_size)
{
	bool any = !pack_set_has_runtime(target->packs);
	int r = 0;

	*ret = (struct prepared){ .target = *target, .filtered = seccomp_filters(target->pid) };
	for (unsigned i = 0; i < target->n_files && r >= 0; i++) {
		r = prepare_file(proxy, target, &target->files[i], &ret->files[ret->n_files],
				 ret_text, text_size);
		ret->target.files[ret->n_files] = target->files[i];
		ret->n_files += r >= 0;
		/* The runtime can be profiled without the files beside it. */
		if (r < 0 && r != -ENOMEM && target->files[i].is_beside) {
			snprintf(ret->not_read, sizeof(ret->not_read), "%.150s", ret_text);
			r = 0;
		}
	}
	ret->target.n_files = ret->n_files;
	for (unsigned i = 0; i < target->packs->n_rows && r >= 0; i++)
		any |= target->packs->rows[i]->work != WORK_STREAM &&
		       target->packs->rows[i]->work != WORK_PLAIN &&
		       target->packs->rows[i]->work != WORK_SCRIPT &&
		       target->packs->rows[i]->work != WORK_CONTEXT && prepared_has(ret, i);
	if (r >= 0 && !any) {
		snprintf(
			ret_text, text_size,
			"process %d maps %s, but none of its functions was found: its files have no symbols",
			target->pid, target->packs->name);
		r = -ENOENT;
	}
	if (r < 0)
		prepared_done(ret, proxy);
	return r;
}

void prepared_done(struct prepared *p, struct proxy *proxy)
{
	for (unsigned i = 0; i < p->n_files; i++) {
		target_file_close(proxy, &p->files[i].opened);
		plan_unref(p->files[i].plan);
	}
	p->n_files = 0;
}

/* Without the addresses that a function returns, allocations and deallocations cannot be
 * matched, and without their number nothing is known of decrypted bytes. */
static bool needs_return(const struct prepared *p, const struct plan_site *site)
{
	const struct probe_row *row = p->target.packs->rows[site->spec];

	return (row->work == WORK_ALLOC && row->verb != VERB_POINT) || row->work == WORK_PLAIN;
}

bool prepared_uses(const struct prepared *p, const struct plan_site *site)
{
	return site->site.class != SITE_REFUSED && !(p->filtered && needs_return(p, site)) &&
	       plan_is_of_release(p->target.packs, site, p->target.version);
}

bool prepared_wants(const struct prepared *p, const struct plan_site *site,
		    const struct detail *detail)
{
	return prepared_uses(p, site) && probe_is_wanted(p->target.packs->rows[site->spec], detail);
}

bool prepared_has(const struct prepared *p, unsigned spec)
{
	for (unsigned f = 0; f < p->n_files; f++)
		for (unsigned i = 0; i < p->files[f].plan->n_sites; i++)
			if (p->files[f].plan->sites[i].spec == spec &&
			    prepared_uses(p, &p->files[f].plan->sites[i]))
				return true;
	return false;
}

bool prepared_does(const struct prepared *p, enum verb verb, enum work work)
{
	for (unsigned i = 0; i < p->target.packs->n_rows; i++)
		if (row_is(p->target.packs->rows[i], verb, work) && prepared_has(p, i))
			return true;
	return false;
}

bool prepared_lacks_ends(const struct prepared *p)
{
	return prepared_does(p, VERB_OPEN, WORK_OP) && !prepared_does(p, VERB_CLOSE, WORK_OP);
}

const char *prepared_refusal(const struct prepared *p, const struct plan_site *site)
{
	if (prepared_uses(p, site))
		return NULL;
	if (!row_is_of_release(p->target.packs->rows[site->spec], p->target.version))
		return "this release does it in another way";
	if (site->site.class != SITE_REFUSED && needs_return(p, site))
		return "the process has a seccomp filter: on some kernels it kills processes that have a probe at the return of a function";
	return site->site.reason ?: "its slot in a virtual table is known only for other releases";
}

/* Why the functions found for a probe cannot be probed; NULL: none was found. */
static const char *refusal(const struct prepared *p, unsigned spec)
{
	for (unsigned f = 0; f < p->n_files; f++)
		for (unsigned i = 0; i < p->files[f].plan->n_sites; i++)
			if (p->files[f].plan->sites[i].spec == spec)
				return prepared_refusal(p, &p->files[f].plan->sites[i]);
	return NULL;
}

/* Whether one of the rows that stand for one another in different releases has a function; what
 * none of them has is missing once, by the first. */
static bool has_any(const struct prepared *p, unsigned spec)
{
	const struct pack_set *set = p->target.packs;

	for (unsigned i = 0; i < set->n_rows; i++)
		if (set->owners[i] == set->owners[spec] && set->rows[i]->lost &&
		    !strcmp(set->rows[i]->lost, set->rows[spec]->lost) &&
		    (i < spec || prepared_has(p, i)))
			return true;
	return false;
}

bool prepared_next_missing(const struct prepared *p, const struct detail *detail, unsigned *spec,
			   char *ret_text, size_t text_size)
{
	const struct pack_set *set = p->target.packs;

	for (; *spec < set->n_rows; ++*spec) {
		const struct probe_row *s = set->rows[*spec];

		if (!s->lost || !probe_is_wanted(s, detail) || has_any(p, *spec))
			continue;
		snprintf(ret_text, text_size, "Process %d: not shown: %s (%s).", p->target.pid,
			 s->lost, refusal(p, *spec) ?: "no such function in this build");
		++*spec;
		return true;
	}
	return false;
}

struct target prepared_new_part(const struct prepared *list, unsigned n,
				const struct target *target)
{
	struct target fresh = *target;

	fresh.n_files = 0;
	for (unsigned i = 0; i < target->n_files; i++) {
		const struct target_file *file = &target->files[i];
		bool known = false;

		for (unsigned k = 0; k < n; k++)
			for (unsigned f = 0;
			     f < list[k].n_files && list[k].target.program == target->program; f++)
				known |= file->is_beside ||
					 (list[k].target.files[f].device == file->device &&
					  list[k].target.files[f].inode == file->inode);
		if (!known)
			fresh.files[fresh.n_files++] = *file;
	}
	return fresh;
}

bool capture_plan_follows_sockets(const struct capture_plan *plan)
{
	/* A server whose own functions report its requests does not need the programs at sockets.
	 */
	for (unsigned i = 0; i < plan->n_targets && !plan->detail.no_sockets; i++)
		if (!prepared_does(&plan->targets[i], VERB_OPEN, WORK_REQUEST))
			return true;
	return false;
}
