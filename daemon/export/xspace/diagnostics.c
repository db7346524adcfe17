/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/xspace/diagnostics.h"

#include <stdio.h>

#include "daemon/export/summary/advice.h"
#include "daemon/export/xspace/device.h"
#include "daemon/export/xspace/writer.h"

static void note(struct writer *w, const struct partial *p, const char *what)
{
	char text[256];

	if (!p->n)
		return;
	snprintf(
		text, sizeof(text),
		"Note: %llu of %llu %s were captured in part: the beginning of %llu of them and the end of %llu are missing. They count in no latency and no percentile, "
		"and are not steps.",
		(unsigned long long)p->n, (unsigned long long)p->all, what,
		(unsigned long long)p->n_start, (unsigned long long)p->n_end);
	(void)xspace_warning(w->xspace, text);
}

int diagnostics_write(struct writer *w, const struct export_options *options)
{
	const struct timeline *t = w->timeline;
	struct xspace *x = w->xspace;
	char text[ADVICE_TEXT + sizeof("Advice: ")];

	if (options->hostname)
		(void)xspace_hostname(x, options->hostname);
	for (unsigned int i = 0; i < options->n_errors; i++)
		(void)xspace_error(x, options->errors[i]);
	for (unsigned int i = 0; options->advice && i < options->advice->n; i++) {
		snprintf(text, sizeof(text), "Advice: %s", options->advice->texts[i]);
		(void)xspace_warning(x, text);
	}
	if (w->level >= 1) {
		note(w, &w->requests, "requests");
		note(w, &w->runs, "runs");
	}
	for (uint32_t i = 0; i < t->n_warnings; i++)
		(void)xspace_warning(x, t->warnings[i]);
	if (options->extras.device_plane)
		(void)xspace_warning(x, device_warning(t, w->level));
	if (w->n_disordered) {
		snprintf(
			text, sizeof(text),
			"%llu events were out of order on their line, the first on \"%s\" at %.3f ms, and are not shown.",
			(unsigned long long)w->n_disordered, w->disordered,
			(double)w->disordered_ns / 1e6);
		(void)xspace_warning(x, text);
	}
	if (!xspace_n_events(x)) {
		if (t->n_spans)
			snprintf(
				text, sizeof(text),
				"No activity is shown at host tracer level %u, but %llu events were seen: "
				"capture with a higher level.",
				w->level, (unsigned long long)t->n_spans);
		else
			snprintf(text, sizeof(text),
				 "No activity of the profiled processes was seen in the window.");
		return xspace_warning(x, text);
	}
	return 0;
}
