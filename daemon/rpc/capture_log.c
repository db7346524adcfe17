/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/capture_log.h"

#include <inttypes.h>
#include <stdio.h>

#include "lib/base/duration.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

/* The name is known only once the capture is planned. */
static void add_process(FILE *f, pid_t pid, const struct capture_plan *plan)
{
	fprintf(f, "%d", pid);
	for (unsigned i = 0; i < plan->n_targets; i++)
		if (plan->targets[i].target.pid == pid) {
			fprintf(f, " (%s)", plan->targets[i].target.name);
			return;
		}
}

static void add_result(FILE *f, const struct capture_result *result)
{
	const struct summary *summary = &result->summary;
	uint64_t n_requests = summary->requests.n_whole;
	char window[DURATION_TEXT];

	if (result->error) {
		fprintf(f, "failed: %s", result->text);
		return;
	}
	fprintf(f,
		"level %u, %s: %" PRIu64 " run%s, %" PRIu64 " request%s, lost records: %" PRIu64
		" of %" PRIu64 "%s",
		result->plan.detail.level, duration_text(result->window_ns, window),
		summary->n_runs, summary->n_runs == 1 ? "" : "s", n_requests,
		n_requests == 1 ? "" : "s", result->dropped, result->records + result->dropped,
		result->cut ? ", ended early" : "");
}

void capture_log_end(uid_t uid, const char *subject, const struct capture *capture,
		     const struct capture_result *result)
{
	_cleanup_free_ char *line = NULL;
	pid_t pids[RECORD_MAX_TARGETS];
	unsigned n = capture_get_pids(capture, pids, RECORD_MAX_TARGETS);
	size_t size = 0;
	FILE *f = open_memstream(&line, &size);

	if (!f)
		return;
	fprintf(f, "capture for user %u%s%s of process%s ", uid, subject ? ", " : "", subject ?: "",
		n == 1 ? "" : "es");
	for (unsigned i = 0; i < n; i++) {
		fputs(i ? ", " : "", f);
		add_process(f, pids[i], &result->plan);
	}
	fputs(", ", f);
	add_result(f, result);
	if (!fclose(f))
		log_info("%s", line);
}
