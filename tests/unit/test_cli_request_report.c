/* SPDX-License-Identifier: Apache-2.0 */
/* The summary of requests as text and as JSON. */
#include <stdlib.h>

#include "cli/report/json.c"
#include "cli/report/request.c"
#include "cli/report/request_report.c"
#include "cli/report/text.c"
#include "tests/unit/check.h"

#define MS 1000000ull

struct sample {
	Tfprofd__RequestSummary summary;
	Tfprofd__Percentiles latency, phases[PHASE_COUNT], *phase_list[PHASE_COUNT];
	Tfprofd__ModelSummary model, *model_list[1];
	Tfprofd__BatchSummary batches;
	Tfprofd__RequestFilter filter;
};

static Tfprofd__Percentiles percentiles(uint64_t ms, uint64_t sum)
{
	Tfprofd__Percentiles p = TFPROFD__PERCENTILES__INIT;

	p.p50_ns = ms * MS;
	p.p90_ns = 2 * ms * MS;
	p.p99_ns = 3 * ms * MS;
	p.max_ns = 4 * ms * MS;
	p.sum_ns = sum * MS;
	return p;
}

static void sample_init(struct sample *s)
{
	s->summary = (Tfprofd__RequestSummary)TFPROFD__REQUEST_SUMMARY__INIT;
	s->model = (Tfprofd__ModelSummary)TFPROFD__MODEL_SUMMARY__INIT;
	s->batches = (Tfprofd__BatchSummary)TFPROFD__BATCH_SUMMARY__INIT;
	s->filter = (Tfprofd__RequestFilter)TFPROFD__REQUEST_FILTER__INIT;
	s->latency = percentiles(10, 1000);
	for (unsigned i = 0; i < PHASE_COUNT; i++) {
		s->phases[i] = percentiles(0, 0);
		s->phase_list[i] = &s->phases[i];
	}
	s->summary.latency = &s->latency;
	s->summary.phases = s->phase_list;
	s->summary.n_phases = PHASE_COUNT;
	s->model_list[0] = &s->model;
	s->summary.models = s->model_list;
	s->summary.batches = &s->batches;
	s->summary.filter = &s->filter;
}

static char *printed(const Tfprofd__RequestSummary *summary)
{
	size_t size;
	char *text;
	FILE *file = open_memstream(&text, &size);

	request_report_print(file, summary);
	request_report_print_tables(file, summary);
	fclose(file);
	return text;
}

static void expect(const Tfprofd__RequestSummary *summary, const char *expected)
{
	char *text = printed(summary);

	CHECK_STR(text, expected);
	free(text);
}

TEST(without_requests_nothing_is_printed)
{
	struct sample s;

	sample_init(&s);
	expect(NULL, "");
	expect(&s.summary, "");
	CHECK(!request_report_has_any(NULL));
	CHECK(!request_report_has_any(&s.summary));
	s.summary.filtered = 3;
	CHECK(!request_report_has_any(&s.summary));
	expect(&s.summary, "  requests 0; 3 left out by the filter\n");
}

TEST(the_phases_that_took_time_are_a_table)
{
	struct sample s;

	sample_init(&s);
	s.summary.whole = 1234;
	s.summary.cut = 3;
	s.summary.reset = 1;
	s.summary.lost = 2;
	s.summary.runs_exact = 1000;
	s.summary.runs_orphaned = 5;
	s.phases[TFPROFD__PHASE__PHASE_READ] = percentiles(1, 100);
	s.phases[TFPROFD__PHASE__PHASE_EXECUTE_RUNNABLE] = percentiles(9, 900);
	s.summary.n_models = 1;
	s.model.name = (char *)"m\x1b";
	s.model.count = 7;
	s.model.p50_ns = MS;
	s.model.p99_ns = 2 * MS;
	s.summary.models_left_out = 9;
	s.batches.count = 10;
	s.batches.tasks = 39;
	s.batches.sized = 2;
	s.batches.rows = 15;
	s.batches.padded_rows = 20;
	expect(&s.summary,
	       "  requests 1,234, p50 10.0 ms, p90 20.0 ms, p99 30.0 ms, max 40.0 ms; 3 truncated by the window; 1 aborted; 2 with lost records\n"
	       "  attribution: 1,000 exact, 0 inferred, 5 unattributed\n"
	       "  batches  10, of 3.9 tasks and 7.5 rows on average; 25.0 % of the processed rows are padding\n"
	       "\nWhere the requests' time went:\n"
	       "  phase                           p50      p90      p99      max  % of total\n"
	       "  read                        1.00 ms  2.00 ms  3.00 ms  4.00 ms        10.0\n"
	       "  execute: waiting for a CPU  9.00 ms  18.0 ms  27.0 ms  36.0 ms        90.0\n"
	       "\nRequests by model:\n"
	       "  requests      p50      p99  model\n"
	       "         7  1.00 ms  2.00 ms  m\\x1b\n"
	       "  and 9 requests of other models\n");
}

TEST(the_object_has_every_number)
{
	struct sample s;
	size_t size;
	char *text;
	FILE *file = open_memstream(&text, &size);
	struct json json = { .file = file, .compact = true };

	sample_init(&s);
	s.summary.whole = 5;
	s.summary.n_phases = 1;
	s.summary.n_models = 1;
	s.model.name = (char *)"a\"\n";
	s.filter.path = (char *)"/x*";
	s.filter.count = 4;
	request_report_json(&json, NULL, &s.summary);
	fclose(file);
	CHECK(strstr(
		text,
		"{\"whole\":5,\"cut\":0,\"reset\":0,\"lost\":0,\"filtered\":0,\"runs_exact\":0,\"runs_inferred\":0,\"runs_orphaned\":0,"
		"\"latency\":{\"p50_ns\":10000000,\"p90_ns\":20000000,\"p99_ns\":30000000,\"max_ns\":40000000,\"sum_ns\":1000000000},"));
	CHECK(strstr(text, "\"unknown\":{\"p50_ns\":0,"));
	CHECK(strstr(text, "\"models\":[{\"name\":\"a\\\"\\n\",\"count\":0,"));
	CHECK(strstr(
		text,
		"\"filter\":{\"slower_than_ns\":0,\"path\":\"/x*\",\"model\":null,\"requests_count\":4},\"left_out\":0}\n"));
	free(text);
}

CHECK_MAIN()
