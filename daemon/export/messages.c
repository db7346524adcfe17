#include "daemon/export/messages.h"

#include <stdio.h>

#include "daemon/export/advice.h"
#include "daemon/export/device.h"
#include "daemon/export/writer.h"

/* What an edge of the window cuts. */
struct cut {
	uint64_t n, before, after, all;
};

static void count_cut(struct cut *c, bool before, bool after)
{
	c->n += before || after;
	c->before += before;
	c->after += after;
	c->all++;
}

static void note(struct writer *w, const struct cut *c, const char *what)
{
	char text[256];

	if (!c->n)
		return;
	snprintf(text, sizeof(text),
		 "Note: %llu of %llu %s are cut: %llu began before the window, %llu went on after it. No latency, percentile or step has them.",
		 (unsigned long long)c->n, (unsigned long long)c->all, what, (unsigned long long)c->before, (unsigned long long)c->after);
	(void)xspace_warning(w->xspace, text);
}

/* Requests, and runs of processes whose requests are not seen. */
static void note_cut(struct writer *w)
{
	const struct timeline *t = w->timeline;
	struct cut requests = {}, runs = {};

	for (uint32_t i = 0; i < t->n_requests; i++)
		if (!(t->requests[i].flags & REQUEST_FILTERED))
			count_cut(&requests, t->requests[i].flags & REQUEST_CUT_START, t->requests[i].flags & REQUEST_CUT_END);
	for (uint64_t i = 0; i < t->n_spans; i++) {
		const struct span *s = &t->spans[i];

		if (s->kind == SPAN_RUN && !(s->flags & SPAN_INNER) && !w->has_requests[t->threads[s->thread].process])
			count_cut(&runs, s->flags & SPAN_CUT_START, s->flags & SPAN_CUT_END);
	}
	note(w, &requests, "requests");
	note(w, &runs, "runs");
}

int messages_write(struct writer *w, const struct export_options *options)
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
	if (w->level >= 1)
		note_cut(w);
	for (uint32_t i = 0; i < t->n_warnings; i++)
		(void)xspace_warning(x, t->warnings[i]);
	if (options->extras.device_plane)
		(void)xspace_warning(x, device_warning(t, w->level));
	if (w->n_disordered) {
		snprintf(text, sizeof(text), "%llu events were out of order on their line and are not shown.",
			 (unsigned long long)w->n_disordered);
		(void)xspace_warning(x, text);
	}
	if (!xspace_n_events(x)) {
		if (t->n_spans)
			snprintf(text, sizeof(text),
				 "No activity is shown at host tracer level %u, but %llu events were seen: "
				 "capture with a higher level.",
				 w->level, (unsigned long long)t->n_spans);
		else
			snprintf(text, sizeof(text), "No activity of the profiled processes was seen in the window.");
		return xspace_warning(x, text);
	}
	return 0;
}
