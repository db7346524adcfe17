/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/prepare.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/macro.h"
#include "lib/proc/seccomp.h"

static int prepare_file(struct proxy *proxy, struct plan_cache *plans, const struct target *target,
			const struct target_file *file, struct prepared_file *ret, char *text,
			size_t text_size)
{
	struct broker_message m = { .type = BROKER_OPEN,
				    .pid = (uint32_t)target->pid,
				    .start = file->start,
				    .end = file->end };
	_cleanup_close_ int fd = -1;
	const char *reason = NULL;
	struct stat st;
	unsigned n;
	int r;

	r = proxy_call(proxy, &m, &fd, &n);
	if (r < 0) {
		snprintf(text, text_size, "cannot open %.120s of process %d: %s", file->path,
			 target->pid, strerror(-r));
		return r;
	}
	*ret = (struct prepared_file){ .id = m.id };
	if (fstat(fd, &st) == 0) {
		ret->device = st.st_dev;
		ret->inode = st.st_ino;
		ret->size = (uint64_t)st.st_size;
	}
	r = plan_cache_get(plans, fd, target->packs, true, &ret->plan, &ret->known, &reason);
	if (r < 0) {
		snprintf(text, text_size, "cannot read %.120s: %s", file->path,
			 reason ?: strerror(-r));
		proxy_call_id(proxy, BROKER_CLOSE, m.id);
	}
	return r;
}

int prepare_target(struct proxy *proxy, struct plan_cache *plans, const struct target *target,
		   struct prepared *ret, char *ret_text, size_t text_size)
{
	bool any = false;
	int r = 0;

	*ret = (struct prepared){ .target = *target, .filtered = seccomp_filters(target->pid) };
	for (unsigned i = 0; i < target->n_files && r >= 0; i++) {
		r = prepare_file(proxy, plans, target, &target->files[i], &ret->files[ret->n_files],
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
		any |= target->packs->rows[i]->work != WORK_STREAM && prepared_has(ret, i);
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
		proxy_call_id(proxy, BROKER_CLOSE, p->files[i].id);
		plan_unref(p->files[i].plan);
	}
	p->n_files = 0;
}

/* Without the addresses that a function returns, allocations and deallocations cannot be
 * matched. */
static bool needs_return(const struct prepared *p, const struct plan_site *site)
{
	const struct probe_row *row = p->target.packs->rows[site->spec];

	return row->work == WORK_ALLOC && row->verb != VERB_POINT;
}

bool prepared_uses(const struct prepared *p, const struct plan_site *site)
{
	const char *release = p->target.packs->owners[site->spec]->slots_release;
	const char *version = p->target.version;

	if (site->site.class == SITE_REFUSED || (p->filtered && needs_return(p, site)))
		return false;
	/* In another release's table the slot would be another function. */
	return site->source != SYMBOL_RTTI || !release || site->slot_known ||
	       p->target.packs->rows[site->spec]->any_release ||
	       !strncmp(version, release, strlen(release));
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

const char *prepared_refusal(const struct prepared *p, const struct plan_site *site)
{
	if (prepared_uses(p, site))
		return NULL;
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

bool prepared_next_missing(const struct prepared *p, const struct detail *detail, unsigned *spec,
			   char *ret_text, size_t text_size)
{
	const struct pack_set *set = p->target.packs;

	for (; *spec < set->n_rows; ++*spec) {
		const struct probe_row *s = set->rows[*spec];

		if (!s->lost || !probe_is_wanted(s, detail) || prepared_has(p, *spec))
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
	/* A server whose own functions report its requests does not need the socket probes, which
	 * every process of the host pays for. */
	for (unsigned i = 0; i < plan->n_targets && !plan->detail.no_sockets; i++)
		if (!prepared_does(&plan->targets[i], VERB_OPEN, WORK_REQUEST))
			return true;
	return false;
}
