/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/session_warnings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/macro.h"

void warnings_add(struct session_warnings *w, const char *format, ...)
{
	va_list ap;

	if (w->n == SESSION_WARNINGS_MAX)
		return;
	va_start(ap, format);
	if (vasprintf(&w->texts[w->n], format, ap) >= 0)
		w->n++;
	va_end(ap);
}

void warnings_restate(struct session_warnings *w, const char *text)
{
	if (w->n < SESSION_WARNINGS_MAX)
		w->restating |= 1u << w->n;
	warnings_add(w, "%s", text);
}

void warnings_of_calls(struct session_warnings *warnings, const struct forecast *forecast)
{
	uint32_t ns = forecast->calibration.any_call_ns;
	char more[32] = "longer";

	if (ns)
		snprintf(more, sizeof(more), "some %u ns longer", ns);
	warnings_add(
		warnings,
		"Each system call of every process took %s: the kernel has no tracepoints at sockets (Linux has them since 6.3) and lets no programs run at its functions. --sockets off does without.",
		more);
}

void warnings_of_stacks(struct session_warnings *w, const struct drain *drain)
{
	struct unwinder_counts n;

	drain_count_stacks(drain, &n);
	if (n.plain)
		warnings_add(
			w,
			"%llu of %llu stacks were followed by frame pointers only: of functions without them, callers are missing.",
			(unsigned long long)n.plain, (unsigned long long)(n.plain + n.stacks));
	if (n.cut > n.stacks / 100)
		warnings_add(
			w,
			"%llu of %llu stacks are truncated: they show [truncated] in place of the outermost functions.",
			(unsigned long long)n.cut, (unsigned long long)(n.plain + n.stacks));
}

void warnings_done(struct session_warnings *w)
{
	for (unsigned i = 0; i < w->n; i++)
		free(w->texts[i]);
}

/* Of each pack whose operations the capture has. */
static void remark_on_ops(struct session_warnings *w, const struct prepared *p,
			  const struct detail *detail)
{
	const struct pack_set *set = p->target.packs;

	for (unsigned i = 0; i < set->n_rows; i++)
		if (set->owners[i]->ops_remark && row_is(set->rows[i], VERB_OPEN, WORK_OP) &&
		    probe_is_wanted(set->rows[i], detail) && prepared_has(p, i))
			warnings_restate(w, set->owners[i]->ops_remark);
}

void warnings_of_probes(struct session_warnings *w, const struct prepared *p,
			const struct detail *detail, const struct forecast *forecast)
{
	char text[256];

	if (!pack_set_has_runtime(p->target.packs))
		warnings_add(w, "Process %d (%s) has " PACKS_NO_RUNTIME ".", p->target.pid,
			     p->target.name);
	for (unsigned spec = 0; prepared_next_missing(p, detail, &spec, text, sizeof(text));)
		warnings_add(w, "%s", text);
	if (*p->not_read)
		warnings_add(
			w,
			"Process %d: requests that its other libraries report are not shown: %s.",
			p->target.pid, p->not_read);
	remark_on_ops(w, p, detail);
	for (unsigned f = 0; f < p->n_files; f++) {
		const struct plan *plan = p->files[f].plan;
		unsigned stepped = 0;

		for (unsigned i = 0; i < plan->n_sites; i++)
			stepped += prepared_wants(p, &plan->sites[i], detail) &&
				   plan->sites[i].site.class == SITE_SINGLE_STEPPED;
		if (stepped)
			warnings_add(
				w,
				"%u %s in %s %s %u times as much as others: %s with an instruction that the kernel single-steps.",
				stepped, stepped == 1 ? "probe" : "probes", p->target.files[f].path,
				stepped == 1 ? "costs" : "cost",
				forecast->calibration.stepped_ns /
					MAX(forecast->calibration.emulated_ns, 1u),
				stepped == 1 ? "its function begins" : "their functions begin");
	}
}
