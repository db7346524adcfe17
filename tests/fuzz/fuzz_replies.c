/* SPDX-License-Identifier: Apache-2.0 */
/* What tfprofctl prints of a daemon's reply: the daemon may be another user's. */
#include <stdio.h>

#include "cli/output/request_reader.h"
#include "cli/report/json.h"
#include "cli/report/plan_report.h"
#include "cli/report/report.h"
#include "cli/report/request_json.h"
#include "cli/report/slowest.h"
#include "tests/fuzz/fuzz.h"

static FILE *nowhere;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	nowhere = fopen("/dev/null", "w");
	return nowhere ? 0 : -1;
}

static void print_plan(const uint8_t *data, size_t size, const struct selection *selection)
{
	Tfprofd__PlanReply *plan = tfprofd__plan_reply__unpack(NULL, size, data);
	struct json json = { .file = nowhere };

	if (!plan)
		return;
	plan_report_print(nowhere, plan, selection);
	plan_report_json(&json, NULL, plan, selection);
	free(plan_report_forecast(plan));
	tfprofd__plan_reply__free_unpacked(plan, NULL);
}

static void print_capture(const uint8_t *data, size_t size, const struct selection *selection)
{
	Tfprofd__CaptureReply *reply = tfprofd__capture_reply__unpack(NULL, size, data);
	struct request_reader requests = {};
	struct report report = { .selection = selection, .requests = &requests };

	if (!reply)
		return;
	requests.slowest = reply->slowest;
	requests.n_slowest = reply->n_slowest;
	report.result = reply->result;
	report.plan = reply->plan;
	report.logdir = "log";
	if (report.result) {
		report_print(nowhere, &report);
		report_print_json(nowhere, &report);
	}
	for (size_t i = 0; i < reply->n_requests; i++) {
		struct json json = { .file = nowhere, .compact = true };

		request_json(&json, NULL, reply->requests[i]);
	}
	slowest_print(nowhere, reply->slowest, reply->n_slowest);
	tfprofd__capture_reply__free_unpacked(reply, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct selection selection = { .level = 2 };

	if (!size)
		return 0;
	if (*data & 1)
		print_plan(data + 1, size - 1, &selection);
	else
		print_capture(data + 1, size - 1, &selection);
	return 0;
}
