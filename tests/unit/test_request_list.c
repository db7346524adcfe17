/* SPDX-License-Identifier: Apache-2.0 */
/* Requests one by one, as messages. The source is included, so that its allocations can be made to
 * fail one by one. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/check.h"

static long allocations_left = -1; /* -1: no limit */

static bool allocation_fails(void)
{
	return allocations_left >= 0 && allocations_left-- == 0;
}

#define malloc(size) (allocation_fails() ? NULL : malloc(size))
#define calloc(n, size) (allocation_fails() ? NULL : calloc(n, size))
#define reallocarray(p, n, size) (allocation_fails() ? NULL : reallocarray(p, n, size))
#include "daemon/export/summary/members.c"
#include "daemon/export/summary/request_list.c"
#include "lib/base/array.c"
#undef malloc
#undef calloc
#undef reallocarray

#define MESSAGES_MAX 64

/* The messages of a list, read again. */
struct told {
	Tfprofd__CaptureReply *replies[MESSAGES_MAX];
	size_t n_replies, largest;
	Tfprofd__Request *requests[4096], *slowest[4096];
	size_t n_requests, n_slowest;
	uint64_t n_left_out;
};

static struct told told;

static void tell(const struct timeline *t, struct request_list_options options)
{
	struct request_list list = {};

	memset(&told, 0, sizeof(told));
	CHECK_EQ(request_list_make(t, &options, &list), 0);
	CHECK(list.n_messages <= MESSAGES_MAX);
	for (size_t i = 0; i < list.n_messages; i++) {
		Tfprofd__CaptureReply *reply = tfprofd__capture_reply__unpack(
			NULL, list.messages[i].size, list.messages[i].bytes);

		CHECK(reply);
		if (!reply)
			continue;
		told.largest = MAX(told.largest, list.messages[i].size);
		told.replies[told.n_replies++] = reply;
		for (size_t k = 0; k < reply->n_requests; k++)
			told.requests[told.n_requests++] = reply->requests[k];
		for (size_t k = 0; k < reply->n_slowest; k++)
			told.slowest[told.n_slowest++] = reply->slowest[k];
	}
	told.n_left_out = list.n_left_out;
	request_list_done(&list);
}

static void forget(void)
{
	for (size_t i = 0; i < told.n_replies; i++)
		tfprofd__capture_reply__free_unpacked(told.replies[i], NULL);
}

static struct thread threads[] = { { .tid = 10, .name = "reader" },
				   { .tid = 11, .name = "worker" },
				   { .tid = 12, .name = "holder" } };
static struct span_name names[] = { { .name = (char *)"futex" },
				    { .name = (char *)"a/MatMul:MatMul" } };
static char *texts[] = { (char *)"POST", (char *)"/v1/models/m:predict", (char *)"m", (char *)"3" };
static struct process process = { .pid = 77 };

static struct request plain_request(uint64_t start, uint64_t latency)
{
	return (struct request){ .start_ns = start,
				 .end_ns = start + latency,
				 .method = TEXT_NONE,
				 .path = TEXT_NONE,
				 .model = TEXT_NONE,
				 .version = TEXT_NONE,
				 .status = -1,
				 .grpc_status = -1,
				 .read_thread = THREAD_NONE,
				 .run_thread = THREAD_NONE,
				 .write_thread = THREAD_NONE };
}

static struct segment piece(uint64_t start, uint64_t end, unsigned phase, unsigned activity,
			    uint32_t thread, uint32_t name, int32_t by)
{
	return (struct segment){ .start_ns = start,
				 .end_ns = end,
				 .phase = (uint8_t)phase,
				 .activity = (uint8_t)activity,
				 .thread = thread,
				 .name = name,
				 .by = by };
}

TEST(requests_that_were_not_asked_for_are_not_listed)
{
	struct request requests[] = { plain_request(1, 2) };
	struct timeline t = { .requests = requests, .n_requests = 1 };

	tell(&t, (struct request_list_options){});
	CHECK_EQ(told.n_replies, 0);
	forget();
	tell(&(struct timeline){}, (struct request_list_options){ .all = true, .slowest = 3 });
	CHECK_EQ(told.n_replies, 0);
	forget();
}

TEST(everything_known_about_a_request_is_listed)
{
	struct segment segments[] = {
		piece(100, 120, PHASE_READ, ACTIVITY_RUNNING, 0, TEXT_NONE, -1),
		piece(120, 150, PHASE_EXECUTE_BLOCKED, ACTIVITY_BLOCKED, 1, 0, 2),
		piece(150, 200, PHASE_EXECUTE_RUNNING, ACTIVITY_RUNNING, 1, 1, -1),
	};
	struct span spans[] = { { .kind = SPAN_RUN,
				  .start_ns = 160,
				  .end_ns = 190,
				  .thread = 1,
				  .step = -1,
				  .request = 1,
				  .flags = SPAN_END_NOT_SEEN },
				{ .kind = SPAN_OP, .request = 1 },
				{ .kind = SPAN_RUN,
				  .start_ns = 130,
				  .end_ns = 150,
				  .thread = 1,
				  .step = 42,
				  .request = 1 },
				{ .kind = SPAN_RUN, .request = 0 } };
	struct batch batches[] = {
		{}, { .start_ns = 125, .end_ns = 195, .n_tasks = 4, .size = 7, .padded = 8 }
	};
	struct batch_task tasks[] = { { .queued_ns = 122, .batch = 1, .request = 1 },
				      { .queued_ns = 123, .batch = UINT32_MAX, .request = 1 },
				      { .batch = 0 } };
	struct request requests[] = { plain_request(100, 100) };
	struct timeline t = { .start_ns = 90,
			      .start_unix_ns = 5000,
			      .requests = requests,
			      .n_requests = 1,
			      .segments = segments,
			      .n_segments = 3,
			      .threads = threads,
			      .n_threads = 3,
			      .names = names,
			      .n_names = 2,
			      .texts = texts,
			      .n_texts = 4,
			      .processes = &process,
			      .n_processes = 1,
			      .spans = spans,
			      .n_spans = 4,
			      .batches = batches,
			      .n_batches = 2,
			      .batch_tasks = tasks,
			      .n_batch_tasks = 3 };
	struct request *r = &requests[0];
	const Tfprofd__Request *m;

	r->n_segments = 3;
	r->phases[PHASE_READ] = 20;
	r->phases[PHASE_EXECUTE_BLOCKED] = 30;
	r->phases[PHASE_EXECUTE_RUNNING] = 50;
	r->read_start_ns = 101;
	r->read_end_ns = 119;
	r->write_start_ns = 198;
	r->connection = 6;
	r->stream = 9;
	r->bytes_in = 1000;
	r->bytes_out = 2000;
	r->method = 0;
	r->path = 1;
	r->model = 2;
	r->version = 3;
	r->status = 200;
	r->grpc_status = 0;
	r->read_thread = 0;
	r->run_thread = 1;
	r->local_port = 8501;
	r->peer_port = 40000;
	r->protocol = PROTOCOL_HTTP1;
	r->attribution = ATTRIBUTION_INFERRED;
	r->flags = REQUEST_NO_ARRIVAL | REQUEST_STREAMING;
	tell(&t, (struct request_list_options){ .all = true });
	CHECK_EQ(told.n_requests, 1);
	m = told.requests[0];
	CHECK_EQ(m->number, 1);
	CHECK_EQ(m->start_unix_ns, 5010);
	CHECK_EQ(m->start_ns, 100);
	CHECK_EQ(m->read_start_ns, 101);
	CHECK_EQ(m->read_end_ns, 119);
	CHECK_EQ(m->write_start_ns, 198);
	CHECK_EQ(m->end_ns, 200);
	CHECK_EQ(m->n_phases, PHASE_COUNT);
	CHECK_EQ(m->phases[PHASE_EXECUTE_RUNNING], 50);
	CHECK_EQ(m->pid, 77);
	CHECK_EQ(m->connection, 6);
	CHECK_EQ(m->stream, 9);
	CHECK_EQ(m->bytes_in, 1000);
	CHECK_EQ(m->bytes_out, 2000);
	CHECK_STR(m->method, "POST");
	CHECK_STR(m->path, "/v1/models/m:predict");
	CHECK_STR(m->model, "m");
	CHECK_STR(m->version, "3");
	CHECK_EQ(m->status, 201);
	CHECK_EQ(m->grpc_status, 1);
	CHECK_EQ(m->local_port, 8501);
	CHECK_EQ(m->peer_port, 40000);
	CHECK_EQ(m->protocol, TFPROFD__PROTOCOL__PROTOCOL_HTTP1);
	CHECK_EQ(m->attribution, TFPROFD__ATTRIBUTION__ATTRIBUTION_INFERRED);
	CHECK(m->no_arrival && !m->cut_start && !m->cut_end && !m->lost && !m->reset);
	CHECK(m->streaming);
	CHECK_EQ(m->n_threads, 3);
	CHECK_EQ(m->threads[m->read_thread - 1]->tid, 10);
	CHECK_EQ(m->threads[m->run_thread - 1]->tid, 11);
	CHECK_EQ(m->write_thread, 0);
	CHECK_EQ(m->n_runs, 2);
	CHECK_EQ(m->runs[0]->id, 42);
	CHECK_EQ(m->runs[0]->start_ns, 130);
	CHECK(!m->runs[0]->not_whole);
	CHECK_EQ(m->runs[1]->id, -1);
	CHECK(m->runs[1]->not_whole);
	CHECK_EQ(m->n_batches, 2);
	CHECK_EQ(m->batches[0]->number, 2);
	CHECK_EQ(m->batches[0]->queued_ns, 122);
	CHECK_EQ(m->batches[0]->start_ns, 125);
	CHECK_EQ(m->batches[0]->tasks, 4);
	CHECK_EQ(m->batches[0]->rows, 7);
	CHECK_EQ(m->batches[0]->padded_rows, 8);
	CHECK_EQ(m->batches[1]->number, 0);
	CHECK_EQ(m->n_critical_path, 3);
	CHECK_EQ(m->critical_path[1]->phase, TFPROFD__PHASE__PHASE_EXECUTE_BLOCKED);
	CHECK_EQ(m->critical_path[1]->activity, TFPROFD__ACTIVITY__ACTIVITY_BLOCKED);
	CHECK_STR(m->names[m->critical_path[1]->name - 1], "futex");
	CHECK_EQ(m->threads[m->critical_path[1]->by - 1]->tid, 12);
	CHECK_EQ(m->critical_path[2]->by, 0);
	CHECK_EQ(m->cause->phase, TFPROFD__PHASE__PHASE_EXECUTE_RUNNING);
	CHECK_EQ(m->cause->phase_ns, 50);
	CHECK_EQ(m->cause->cause_ns, 50);
	CHECK_STR(m->names[m->cause->name - 1], "a/MatMul:MatMul");
	forget();
}

TEST(a_request_lists_the_quotas_of_the_cgroups_that_it_names)
{
	struct segment segments[] = {
		piece(1, 9, PHASE_EXECUTE_THROTTLED, ACTIVITY_THROTTLED, 1, 1, -1),
		piece(9, 10, PHASE_EXECUTE_THROTTLED, ACTIVITY_THROTTLED, 1, TEXT_NONE, -1),
	};
	struct request requests[] = { plain_request(1, 9), plain_request(2, 9) };
	struct timeline t = { .requests = requests,
			      .n_requests = 2,
			      .segments = segments,
			      .n_segments = 2,
			      .threads = threads,
			      .n_threads = 3,
			      .names = names,
			      .n_names = 2,
			      .quotas = { { .name = 0, .quota_ns = 1, .period_ns = 2 },
					  { .name = TEXT_NONE },
					  { .name = 1, .quota_ns = 20, .period_ns = 100 } },
			      .n_quotas = 3 };
	const Tfprofd__Request *m;

	requests[0].n_segments = 2;
	requests[0].phases[PHASE_EXECUTE_THROTTLED] = 9;
	tell(&t, (struct request_list_options){ .all = true });
	m = told.requests[0];
	CHECK_EQ(m->cause->activity, TFPROFD__ACTIVITY__ACTIVITY_THROTTLED);
	CHECK_EQ(m->n_quotas, 1);
	CHECK_EQ(m->quotas[0]->name, m->cause->name);
	CHECK_EQ(m->quotas[0]->quota_ns, 20);
	CHECK_EQ(m->quotas[0]->period_ns, 100);
	CHECK_EQ(told.requests[1]->n_quotas, 0);
	forget();
}

TEST(the_runs_of_each_request_are_its_own)
{
	struct request requests[] = { plain_request(1, 9), plain_request(2, 9),
				      plain_request(3, 9) };
	struct span spans[] = { { .kind = SPAN_RUN, .start_ns = 5, .step = 30, .request = 3 },
				{ .kind = SPAN_RUN, .start_ns = 4, .step = 10, .request = 1 },
				{ .kind = SPAN_RUN, .start_ns = 7, .step = 31, .request = 3 },
				{ .kind = SPAN_RUN, .start_ns = 7, .step = 99, .request = 4 } };
	struct timeline t = { .requests = requests, .n_requests = 3, .spans = spans, .n_spans = 4 };

	tell(&t, (struct request_list_options){ .all = true });
	CHECK_EQ(told.n_requests, 3);
	CHECK_EQ(told.requests[0]->n_runs, 1);
	CHECK_EQ(told.requests[0]->runs[0]->id, 10);
	CHECK_EQ(told.requests[1]->n_runs, 0);
	CHECK_EQ(told.requests[2]->n_runs, 2);
	CHECK_EQ(told.requests[2]->runs[0]->id, 30);
	CHECK_EQ(told.requests[2]->runs[1]->id, 31);
	forget();
}

TEST(a_request_lists_what_it_sent_and_by_what_it_was_sent)
{
	enum { N = REQUEST_CALLS_MAX + 2 };
	struct request requests[N + 1];
	struct process processes[] = { { .pid = 70 }, { .pid = 71 } };
	struct hop hops[N];
	struct timeline t = { .requests = requests,
			      .n_requests = N + 1,
			      .processes = processes,
			      .n_processes = 2,
			      .hops = hops,
			      .n_hops = N };

	requests[0] = plain_request(1, 9);
	requests[0].first_call = 1;
	requests[0].n_calls = N - 1;
	for (uint32_t i = 0; i < N; i++) {
		requests[i + 1] = plain_request(2, 3);
		requests[i + 1].process = 1;
		requests[i + 1].hop = i + 1;
		hops[i] = (struct hop){
			.start_ns = i, .end_ns = i + 5, .caller = i != 0, .callee = i + 2
		};
	}
	tell(&t, (struct request_list_options){ .all = true });
	CHECK_EQ(told.requests[0]->n_calls, REQUEST_CALLS_MAX);
	CHECK_EQ(told.requests[0]->calls_left_out, 1);
	CHECK(!told.requests[0]->called_by);
	CHECK_EQ(told.requests[0]->calls[0]->request, 3);
	CHECK_EQ(told.requests[0]->calls[0]->pid, 71);
	CHECK_EQ(told.requests[0]->calls[0]->start_ns, 1);
	CHECK_EQ(told.requests[0]->calls[0]->end_ns, 6);
	CHECK_EQ(told.requests[1]->called_by->request, 0);
	CHECK_EQ(told.requests[1]->called_by->pid, 70);
	CHECK_EQ(told.requests[2]->called_by->request, 1);
	CHECK_EQ(told.requests[2]->n_calls, 0);
	forget();
}

TEST(each_request_lists_the_threads_that_it_refers_to)
{
	struct request requests[] = { plain_request(1, 9), plain_request(2, 9) };
	struct timeline t = {
		.requests = requests, .n_requests = 2, .threads = threads, .n_threads = 3
	};

	requests[0].read_thread = requests[0].write_thread = requests[1].write_thread = 2;
	requests[1].read_thread = 1;
	tell(&t, (struct request_list_options){ .all = true });
	CHECK_EQ(told.requests[0]->n_threads, 1);
	CHECK_EQ(told.requests[0]->write_thread, 1);
	CHECK_EQ(told.requests[1]->n_threads, 2);
	CHECK_EQ(told.requests[1]->threads[told.requests[1]->write_thread - 1]->tid, 12);
	forget();
}

TEST(consecutive_equal_pieces_are_merged)
{
	struct segment segments[] = {
		piece(0, 10, PHASE_EXECUTE_RUNNING, ACTIVITY_RUNNING, 1, 1, -1),
		piece(10, 20, PHASE_EXECUTE_RUNNING, ACTIVITY_RUNNING, 1, 1, -1),
		piece(20, 20, PHASE_EXECUTE_BLOCKED, ACTIVITY_BLOCKED, 1, 0, -1),
		piece(20, 25, PHASE_EXECUTE_RUNNING, ACTIVITY_RUNNING, 1, 1, -1),
		piece(25, 30, PHASE_EXECUTE_RUNNING, ACTIVITY_RUNNING, 2, 1, -1),
		piece(30, 40, PHASE_EXECUTE_RUNNABLE, ACTIVITY_RUNNABLE, 2, 1, 0),
		piece(40, 50, PHASE_EXECUTE_RUNNABLE, ACTIVITY_RUNNABLE, 2, 1, 1),
	};
	struct request requests[] = { plain_request(0, 50) };
	struct timeline t = { .requests = requests,
			      .n_requests = 1,
			      .segments = segments,
			      .n_segments = 7,
			      .threads = threads,
			      .n_threads = 3,
			      .names = names,
			      .n_names = 2 };

	requests[0].n_segments = 7;
	tell(&t, (struct request_list_options){ .all = true });
	CHECK_EQ(told.requests[0]->n_critical_path, 4);
	CHECK_EQ(told.requests[0]->critical_path[0]->end_ns, 25);
	CHECK_EQ(told.requests[0]->critical_path[1]->end_ns, 30);
	CHECK_EQ(told.requests[0]->critical_path[3]->start_ns, 40);
	CHECK(!told.requests[0]->cause); /* it has no phases here */
	forget();
}

TEST(the_cause_has_the_largest_total_in_the_longest_phase)
{
	/* The longest piece is of another phase, and the longest piece of the phase is not its
	 * cause. */
	struct segment segments[] = {
		piece(0, 40, PHASE_DECODE, ACTIVITY_RUNNING, 0, TEXT_NONE, -1),
		piece(40, 60, PHASE_EXECUTE_BLOCKED, ACTIVITY_BLOCKED, 1, 0, 2),
		piece(60, 85, PHASE_EXECUTE_BLOCKED, ACTIVITY_BLOCKED, 1, 1, -1),
		piece(85, 100, PHASE_EXECUTE_BLOCKED, ACTIVITY_BLOCKED, 1, 0, 2),
	};
	struct request requests[] = { plain_request(0, 100) };
	struct timeline t = { .requests = requests,
			      .n_requests = 1,
			      .segments = segments,
			      .n_segments = 4,
			      .threads = threads,
			      .n_threads = 3,
			      .names = names,
			      .n_names = 2 };
	const Tfprofd__RequestCause *cause;

	requests[0].n_segments = 4;
	requests[0].phases[PHASE_DECODE] = 40;
	requests[0].phases[PHASE_EXECUTE_BLOCKED] = 60;
	tell(&t, (struct request_list_options){ .slowest = 1 });
	CHECK_EQ(told.n_slowest, 1);
	cause = told.slowest[0]->cause;
	CHECK(cause);
	CHECK_EQ(cause->phase, TFPROFD__PHASE__PHASE_EXECUTE_BLOCKED);
	CHECK_EQ(cause->phase_ns, 60);
	CHECK_EQ(cause->cause_ns, 35);
	CHECK_STR(told.slowest[0]->names[cause->name - 1], "futex");
	CHECK_EQ(told.slowest[0]->threads[cause->by - 1]->tid, 12);
	forget();
}

TEST(a_critical_path_of_many_pieces_is_listed_without_gaps)
{
	enum { N = 50000 };
	struct segment *segments = calloc(N, sizeof(*segments));
	struct request requests[] = { plain_request(0, 0) };
	struct timeline t = { .requests = requests,
			      .n_requests = 1,
			      .segments = segments,
			      .n_segments = N,
			      .threads = threads,
			      .n_threads = 3,
			      .names = names,
			      .n_names = 2 };
	uint64_t at = 0, pieces = 0;

	for (unsigned i = 0; i < N; i++) {
		uint64_t length = i % 25 ? 10 : 1000000;

		segments[i] = piece(at, at + length, PHASE_EXECUTE_RUNNING, ACTIVITY_RUNNING, i % 3,
				    i % 2, -1);
		at += length;
	}
	requests[0].end_ns = at;
	requests[0].n_segments = N;
	requests[0].phases[PHASE_EXECUTE_RUNNING] = at;
	tell(&t, (struct request_list_options){ .all = true });
	CHECK(told.requests[0]->n_critical_path <= REQUEST_SEGMENTS_MAX);
	at = 0;
	for (size_t i = 0; i < told.requests[0]->n_critical_path; i++) {
		const Tfprofd__RequestSegment *s = told.requests[0]->critical_path[i];

		CHECK_EQ(s->start_ns, at);
		at = s->end_ns;
		pieces += s->pieces > 1 ? s->pieces : 1;
	}
	CHECK_EQ(at, requests[0].end_ns);
	CHECK_EQ(pieces, N);
	forget();
	free(segments);
}

TEST(the_slowest_are_whole_and_in_order)
{
	struct request requests[] = { plain_request(1, 5),  plain_request(2, 50),
				      plain_request(3, 7),  plain_request(4, 7),
				      plain_request(5, 99), plain_request(6, 98) };
	struct timeline t = { .requests = requests, .n_requests = 6 };

	requests[4].flags = REQUEST_TRUNCATED_END;
	requests[5].flags = REQUEST_FILTERED;
	tell(&t, (struct request_list_options){ .slowest = 3 });
	CHECK_EQ(told.n_slowest, 3);
	CHECK_EQ(told.n_requests, 0);
	CHECK_EQ(told.slowest[0]->number, 2);
	CHECK_EQ(told.slowest[1]->number, 3);
	CHECK_EQ(told.slowest[2]->number, 4);
	forget();
	tell(&t, (struct request_list_options){ .slowest = 1000, .all = true });
	CHECK_EQ(told.n_slowest, 4);
	CHECK_EQ(told.n_requests, 5);
	CHECK(told.requests[4]->cut_end);
	forget();
}

TEST(messages_have_a_size_and_the_list_has_limits)
{
	enum { N = 3000 };
	static char path[2000];
	char *long_texts[] = { path };
	struct request *requests = calloc(N, sizeof(*requests));
	struct timeline t = {
		.requests = requests, .n_requests = N, .texts = long_texts, .n_texts = 1
	};

	memset(path, 'x', sizeof(path) - 1);
	for (unsigned i = 0; i < N; i++) {
		requests[i] = plain_request(i, 10);
		requests[i].path = 0;
	}
	tell(&t, (struct request_list_options){ .all = true });
	CHECK_EQ(told.n_requests, N);
	CHECK_EQ(told.n_left_out, 0);
	CHECK_EQ(told.n_replies, 6);
	CHECK(told.largest <= 1u << 20);
	for (unsigned i = 0; i < N; i++)
		CHECK_EQ(told.requests[i]->number, i + 1);
	forget();
	tell(&t, (struct request_list_options){ .all = true, .slowest = 10, .max_requests = 100 });
	CHECK_EQ(told.n_requests, 100);
	CHECK_EQ(told.n_slowest, 10);
	CHECK_EQ(told.n_left_out, N - 100);
	forget();
	tell(&t, (struct request_list_options){ .all = true, .max_bytes = 1 << 20 });
	CHECK(told.n_requests > 400 && told.n_requests < 530);
	CHECK_EQ(told.n_left_out, N - told.n_requests);
	forget();
	free(requests);
}

TEST(every_allocation_that_fails_gives_enomem)
{
	struct request requests[] = { plain_request(1, 5), plain_request(2, 50) };
	struct timeline t = { .requests = requests, .n_requests = 2 };
	const struct request_list_options options = { .slowest = 2, .all = true };
	struct request_list list = {};
	long n = 0;
	int r;

	do {
		allocations_left = n++;
		r = request_list_make(&t, &options, &list);
		if (r)
			CHECK_EQ(r, -ENOMEM);
	} while (r && n < 100);
	allocations_left = -1;
	CHECK_EQ(r, 0);
	CHECK_EQ(n, 14 + 6 + 3 + 1);
	request_list_done(&list);
}

CHECK_MAIN()
