/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/site_check.h"

#include <errno.h>
#include <string.h>

static bool is_that_function(const struct mapped_file *file, const struct plan_site *site)
{
	bool is = plan_is_of_release(file->plan->packs, site, "");

	for (unsigned i = 0; i < file->n_versions && !is; i++)
		is = plan_is_of_release(file->plan->packs, site, file->versions[i]);
	return is;
}

/*
 * The kernel replaces a return address there. From 6.11 on the function then returns through a
 * system call; on some of these kernels a seccomp filter that does not know that call kills the
 * process.
 */
static int check_return(const struct mapped_file *file, const struct plan_site *site)
{
	if (site->site.stack_offset || site->site.may_repeat)
		return -EINVAL;
	return file->has_seccomp ? -EPERM : 0;
}

int site_check(const struct mapped_file *file, const struct plan_site *site, unsigned target,
	       struct attach_site *ret)
{
	const struct probe_row *row = file->plan->packs->rows[site->spec];
	int r = 0;

	if (site->site.class == SITE_REFUSED || !is_that_function(file, site) ||
	    !code_ranges_contain(&file->ranges, site->offset))
		return -EINVAL;
	if (row->at_return)
		r = check_return(file, site);
	/* The kernel will write there: the file itself must declare the counter as this probe's. */
	if (r >= 0 && site->semaphore)
		r = code_ranges_check_counter(&file->ranges, file->fd, site->note, site->offset,
					      site->semaphore);
	*ret = (struct attach_site){ .pid = file->pid,
				     .file = file->fd,
				     .offset = site->offset,
				     .cookie = plan_cookie(file->plan, site, target),
				     .semaphore = site->semaphore,
				     .kind = probe_kind_of_row(row) };
	return r;
}
