/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that one captured process sends to another. */
#include "tests/unit/check.h"

#include <stdlib.h>

#include "lib/base/macro.h"
#include "tests/unit/played.h"

enum { S_MADE, S_ENTER, S_EXIT };

static const struct probe_row rows[] = {
	[S_MADE] = { ENQUEUE(CONTEXT), .action = ACTION_READ },
	[S_ENTER] = { OPEN(CONTEXT), .action = ACTION_READ },
	[S_EXIT] = { CLOSE(CONTEXT), .action = ACTION_READ },
};
static const struct pack pack = { .name = "test", .rows = rows, .n_rows = ARRAY_SIZE(rows) };

#define RECORDS_MAX 64
enum { GATEWAY, BACKEND };
/* Threads. */
enum { READER = 1, OTHER, SERVER };
/* Connections: the client's, and both ends of the one between the two. */
enum { CLIENT = 1, CLIENT_2, CALL, SERVED };
enum { HEADERS = 1 };
#define PORT 40000
#define CLIENT_PORT 50000
#define SERVER_PORT 8501
enum { CALLBACK = 0x1000, TASK = 0x2000 };
#define TYPE 0x948340

static union {
	struct record head;
	struct record_message message;
	struct record_probe2 probe;
} space[RECORDS_MAX];
static unsigned n_records;
static uint64_t now, losses_from, losses_to;
static uint32_t ordinals[8][2];

static void begin(void)
{
	n_records = 0;
	now = 1000;
	losses_from = losses_to = 0;
	memset(ordinals, 0, sizeof(ordinals));
}

/* A whole message, of 100 bytes up to that sequence number. */
static struct record_message *passes(uint32_t tid, uint32_t socket, uint8_t direction,
				     unsigned parts, uint32_t position)
{
	struct record_message *m = &space[n_records++].message;
	bool client = socket == CALL;

	now += 100;
	*m = (struct record_message){
		.head = { .time = now,
			  .tid = tid,
			  .kind = RECORD_MESSAGE,
			  .size8 = sizeof(*m) / 8,
			  .target = socket == SERVED ? BACKEND : GATEWAY },
		.began = now - 10,
		.socket = socket,
		.inode = socket,
		.position = position,
		.bytes = 100,
		.local_port = client ? PORT : SERVER_PORT,
		.peer_port = (uint16_t)(client             ? SERVER_PORT
					: socket == SERVED ? PORT
							   : CLIENT_PORT + socket),
		.part = (uint16_t)(parts | MESSAGE_FIRST | MESSAGE_LAST |
				   (client ? 0 : MESSAGE_SERVER)),
		.direction = direction,
		.protocol = MESSAGE_HTTP1,
		.ordinal = ++ordinals[socket][direction],
	};
	return m;
}

static void reads(uint32_t tid, uint32_t socket, uint32_t position)
{
	passes(tid, socket, MESSAGE_READ, MESSAGE_IS_REQUEST, position);
}

static void answers(uint32_t tid, uint32_t socket, uint32_t position)
{
	passes(tid, socket, MESSAGE_WRITTEN, 0, position);
}

static void sends(uint32_t tid, uint32_t position)
{
	passes(tid, CALL, MESSAGE_WRITTEN, MESSAGE_IS_REQUEST, position);
}

static void is_answered(uint32_t tid, uint32_t position)
{
	passes(tid, CALL, MESSAGE_READ, 0, position);
}

/* The backend's part of a call. */
static void serves(uint32_t position, uint32_t answer)
{
	reads(SERVER, SERVED, position);
	answers(SERVER, SERVED, answer);
}

/* A call from its begin to its end: the n-th one of the connection. */
static void calls(uint32_t tid, uint32_t n)
{
	sends(tid, 7100 + 100 * n);
	serves(7100 + 100 * n, 9100 + 100 * n);
	is_answered(tid, 9100 + 100 * n);
}

/* The thread makes a context, enters it, or leaves it. */
static void does(uint32_t tid, uint8_t site, uint64_t context)
{
	struct record_probe2 *r = &space[n_records++].probe;

	now += 100;
	memset(r, 0, sizeof(*r));
	r->probe.head = (struct record){ .time = now,
					 .tid = tid,
					 .kind = RECORD_PROBE,
					 .size8 = sizeof(*r) / 8,
					 .site = site,
					 .target = GATEWAY };
	r->probe.stack = 400;
	r->probe.value = context;
	r->value2 = TYPE;
}

/* A callback of a loop reads a request and makes a task of it. */
static void reads_and_makes(uint32_t socket, uint64_t task)
{
	does(READER, S_ENTER, CALLBACK);
	reads(READER, socket, 500);
	does(READER, S_MADE, task);
	does(READER, S_EXIT, CALLBACK);
}

static struct timeline *run(void)
{
	return play(&(struct played){ .pack = &pack,
				      .n_targets = 2,
				      .records = space,
				      .size = sizeof(space[0]),
				      .n = n_records,
				      .losses_from = losses_from,
				      .losses_to = losses_to,
				      .end_ns = now + 1000 });
}

/* For each request that the backend served, in order: the socket of the request that sent it; '?':
 * one that is unknown, '-': no call was found. */
static void check_sent_by(const char *wanted)
{
	struct timeline *t = run();
	char found[32] = "";
	size_t n = 0;

	for (uint32_t i = 0; i < t->n_requests && n + 1 < sizeof(found); i++) {
		const struct request *q = &t->requests[i];
		const struct hop *hop = q->hop ? &t->hops[q->hop - 1] : NULL;

		if (q->process != BACKEND)
			continue;
		if (hop) {
			CHECK_EQ(hop->callee, i + 1);
			CHECK_EQ(hop->process, GATEWAY);
		}
		found[n++] = !hop           ? '-'
			     : !hop->caller ? '?'
					    : (char)('0' + t->requests[hop->caller - 1].peer_port -
						     CLIENT_PORT);
	}
	CHECK_STR(found, wanted);
	timeline_free(t);
}

TEST(a_request_leads_to_the_one_that_its_thread_sends)
{
	struct timeline *t;

	begin();
	reads(READER, CLIENT, 500);
	calls(READER, 0);
	answers(READER, CLIENT, 600);
	check_sent_by("1");
	t = run();
	CHECK_EQ(t->n_hops, 1);
	CHECK_EQ(t->hops[0].start_ns, space[1].message.began);
	CHECK_EQ(t->hops[0].end_ns, space[4].head.time);
	CHECK_EQ(t->requests[0].n_calls, 1);
	CHECK_EQ(t->requests[0].first_call, 0);
	timeline_free(t);
}

TEST(requests_of_a_connection_are_told_apart_by_their_bytes)
{
	begin();
	for (uint32_t i = 0; i < 3; i++) {
		reads(READER, i == 1 ? CLIENT_2 : CLIENT, 500 + 100 * i);
		calls(READER, i);
		answers(READER, i == 1 ? CLIENT_2 : CLIENT, 600 + 100 * i);
	}
	check_sent_by("121");
}

TEST(pipelined_calls_are_answered_in_their_order)
{
	begin();
	reads(READER, CLIENT, 500);
	sends(READER, 7100);
	sends(READER, 7200);
	serves(7100, 9100);
	serves(7200, 9200);
	is_answered(READER, 9100);
	is_answered(READER, 9200);
	answers(READER, CLIENT, 600);
	check_sent_by("11");
}

TEST(another_connection_with_these_ports_is_not_joined)
{
	begin();
	/* The same ports in another network: the request's bytes have other numbers. */
	reads(READER, CLIENT, 500);
	sends(READER, 7100);
	serves(7101, 9100);
	is_answered(READER, 9100);
	answers(READER, CLIENT, 600);
	check_sent_by("-");
	/* Or the answer's. */
	begin();
	reads(READER, CLIENT, 500);
	sends(READER, 7100);
	serves(7100, 9101);
	is_answered(READER, 9100);
	answers(READER, CLIENT, 600);
	check_sent_by("-");
}

TEST(of_two_requests_with_the_same_numbers_none_is_joined)
{
	begin();
	reads(READER, CLIENT, 500);
	sends(READER, 7100);
	serves(7100, 9100);
	serves(7100, 9100);
	is_answered(READER, 9100);
	answers(READER, CLIENT, 600);
	check_sent_by("--");
}

TEST(the_sender_is_unknown_where_its_thread_has_two_requests_or_another_thread_answers)
{
	begin();
	reads(READER, CLIENT, 500);
	reads(READER, CLIENT_2, 500);
	calls(READER, 0);
	answers(READER, CLIENT, 600);
	answers(READER, CLIENT_2, 600);
	check_sent_by("?");
	begin();
	reads(READER, CLIENT, 500);
	calls(READER, 0);
	answers(OTHER, CLIENT, 600);
	check_sent_by("?");
	begin();
	reads(READER, CLIENT, 500);
	calls(OTHER, 0);
	answers(READER, CLIENT, 600);
	check_sent_by("?");
}

TEST(a_thread_that_has_had_several_requests_at_a_time_proves_nothing)
{
	begin();
	reads(READER, CLIENT, 500);
	calls(READER, 0);
	reads(READER, CLIENT_2, 500);
	answers(READER, CLIENT, 600);
	answers(READER, CLIENT_2, 600);
	check_sent_by("?");
}

TEST(a_call_may_be_that_of_a_request_from_before_the_window_which_is_answered_later)
{
	begin();
	reads(READER, CLIENT, 500);
	calls(READER, 0);
	answers(READER, CLIENT_2, 600);
	answers(READER, CLIENT, 600);
	check_sent_by("?");
	/* What is answered before the call changes nothing. */
	begin();
	answers(READER, CLIENT_2, 600);
	reads(READER, CLIENT, 500);
	calls(READER, 0);
	answers(READER, CLIENT, 600);
	check_sent_by("1");
}

TEST(a_thread_that_reads_a_request_while_one_waits_proves_nothing_even_before_its_last_byte)
{
	begin();
	reads(READER, CLIENT, 500);
	passes(READER, CLIENT_2, MESSAGE_READ, MESSAGE_IS_REQUEST, 500)->part &=
		(uint16_t)~MESSAGE_LAST;
	calls(READER, 0);
	answers(READER, CLIENT, 600);
	check_sent_by("?");
}

TEST(a_process_that_moves_requests_between_threads_proves_nothing)
{
	begin();
	reads(READER, CLIENT, 500);
	calls(READER, 0);
	answers(READER, CLIENT, 600);
	reads(READER, CLIENT_2, 500);
	answers(OTHER, CLIENT_2, 600);
	check_sent_by("?");
	/* Or their calls. */
	begin();
	reads(READER, CLIENT, 500);
	sends(READER, 7100);
	serves(7100, 9100);
	is_answered(OTHER, 9100);
	answers(READER, CLIENT, 600);
	check_sent_by("?");
}

TEST(a_thread_may_go_on_with_a_request_that_nobody_waits_for)
{
	begin();
	reads(READER, CLIENT, 500);
	passes(READER, CLIENT, MESSAGE_READ, 0, 500)->part = MESSAGE_CLOSED | MESSAGE_SERVER;
	reads(READER, CLIENT_2, 500);
	calls(READER, 0);
	answers(READER, CLIENT_2, 600);
	check_sent_by("?");
}

TEST(after_a_lost_answer_the_next_ones_are_not_mixed_up)
{
	struct timeline *t;

	begin();
	for (uint32_t i = 0; i < 3; i++) {
		reads(READER, CLIENT, 500 + 100 * i);
		calls(READER, i);
		/* Of the first one the end was not seen. */
		if (!i)
			space[n_records - 1].message.part &= (uint16_t)~MESSAGE_LAST;
		answers(READER, CLIENT, 600 + 100 * i);
	}
	check_sent_by("111");
	t = run();
	CHECK_EQ(t->n_hops, 3);
	CHECK_EQ(t->hops[0].end_ns, 0);
	CHECK_EQ(t->hops[1].end_ns, 0);
	CHECK(t->hops[2].end_ns);
	timeline_free(t);
}

TEST(of_two_calls_with_the_same_numbers_none_is_joined)
{
	begin();
	reads(READER, CLIENT, 500);
	calls(READER, 0);
	sends(READER, 7100);
	answers(READER, CLIENT, 600);
	check_sent_by("-");
}

TEST(a_call_after_the_answer_is_of_no_request)
{
	begin();
	reads(READER, CLIENT, 500);
	answers(READER, CLIENT, 600);
	calls(READER, 0);
	check_sent_by("?");
}

TEST(a_context_leads_from_the_task_that_sends_to_the_request)
{
	begin();
	reads_and_makes(CLIENT, TASK);
	reads_and_makes(CLIENT_2, TASK + 1);
	for (uint64_t i = 0; i < 2; i++) {
		does(READER, S_ENTER, TASK + 1 - i);
		sends(READER, 7100 + 100 * (uint32_t)i);
		does(READER, S_EXIT, TASK + 1 - i);
	}
	serves(7100, 9100);
	serves(7200, 9200);
	is_answered(READER, 9100);
	is_answered(READER, 9200);
	answers(READER, CLIENT, 600);
	answers(READER, CLIENT_2, 600);
	check_sent_by("21");
}

TEST(a_context_that_outlives_its_request_leads_to_none)
{
	begin();
	reads_and_makes(CLIENT, TASK);
	for (uint32_t i = 0; i < 2; i++) {
		does(READER, S_ENTER, TASK);
		sends(READER, 7100 + 100 * i);
		does(READER, S_EXIT, TASK);
		serves(7100 + 100 * i, 9100 + 100 * i);
		is_answered(READER, 9100 + 100 * i);
		if (!i)
			answers(READER, CLIENT, 600);
	}
	check_sent_by("??");
}

TEST(an_answer_that_the_other_end_has_not_written_is_not_its_own)
{
	begin();
	reads(READER, CLIENT, 500);
	sends(READER, 7100);
	reads(SERVER, SERVED, 7100);
	is_answered(READER, 9100);
	answers(READER, CLIENT, 600);
	check_sent_by("-");
}

TEST(the_sender_is_unknown_where_records_were_lost)
{
	begin();
	reads(READER, CLIENT, 500);
	losses_from = now + 10;
	losses_to = now + 20;
	calls(READER, 0);
	answers(READER, CLIENT, 600);
	check_sent_by("?");
}

TEST(a_call_that_is_not_answered_in_the_window_is_joined_by_its_request)
{
	struct timeline *t;

	begin();
	reads(READER, CLIENT, 500);
	sends(READER, 7100);
	reads(SERVER, SERVED, 7100);
	/* Who answers it is not known. */
	check_sent_by("?");
	t = run();
	CHECK_EQ(t->hops[0].end_ns, 0);
	timeline_free(t);
}

/* HTTP/2: a frame with its head of 9 bytes. */
static void frame(struct record_message *m, uint32_t stream)
{
	m->protocol = MESSAGE_HTTP2;
	m->type = HEADERS;
	m->stream = stream;
}

TEST(streams_of_a_connection_are_told_apart)
{
	begin();
	passes(READER, CALL, MESSAGE_WRITTEN, MESSAGE_PREFACE, 100)->protocol = MESSAGE_HTTP2;
	passes(SERVER, SERVED, MESSAGE_READ, MESSAGE_PREFACE, 100)->protocol = MESSAGE_HTTP2;
	reads(READER, CLIENT, 500);
	frame(passes(READER, CALL, MESSAGE_WRITTEN, 0, 209), 1);
	reads(OTHER, CLIENT_2, 500);
	frame(passes(OTHER, CALL, MESSAGE_WRITTEN, 0, 318), 3);
	frame(passes(SERVER, SERVED, MESSAGE_READ, 0, 209), 1);
	frame(passes(SERVER, SERVED, MESSAGE_READ, 0, 318), 3);
	frame(passes(SERVER, SERVED, MESSAGE_WRITTEN, 0, 1109), 3);
	frame(passes(SERVER, SERVED, MESSAGE_WRITTEN, 0, 1218), 1);
	frame(passes(OTHER, CALL, MESSAGE_READ, 0, 1109), 3);
	frame(passes(READER, CALL, MESSAGE_READ, 0, 1218), 1);
	answers(READER, CLIENT, 600);
	answers(OTHER, CLIENT_2, 600);
	/* One thread may send what others have to send. */
	check_sent_by("??");
}

TEST(decrypted_bytes_have_no_numbers)
{
	begin();
	reads(READER, CLIENT, 500);
	sends(READER, 7100);
	space[n_records - 1].message.part |= MESSAGE_DECRYPTED;
	serves(7100, 9100);
	answers(READER, CLIENT, 600);
	check_sent_by("-");
}

CHECK_MAIN()
