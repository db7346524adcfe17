/* SPDX-License-Identifier: Apache-2.0 */
/* The gRPC server in a thread of its own and the client, over abstract Unix sockets. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/loop.h"
#include "lib/base/macro.h"
#include "lib/grpc/address.h"
#include "lib/grpc/client.h"
#include "lib/grpc/server.h"
#include "tests/unit/check.h"

#define PIECE_SIZE 100000
#define WAIT_S 60

struct fixture {
	struct loop *loop;
	struct grpc_server *server;
	pthread_t thread;
	char address[32];
	int listener;
	struct grpc_call *held;
	int refuse;
	int wanted_pieces, n_pieces, n_messages, n_peers, n_unlistened;
	sem_t arrived;   /* a call that is not answered yet */
	sem_t cancelled; /* a cancel function ran */
	sem_t released;  /* a piece of a body was released */
	sem_t gone;      /* a connection or a listener was closed */
	sem_t stopped;
};

static bool wait_for(sem_t *sem)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_S;
	return sem_timedwait(sem, &until) == 0;
}

static struct grpc_body *body_of(const void *bytes, size_t size)
{
	struct grpc_body *body = NULL;

	CHECK_EQ(grpc_body_new(&body), 0);
	CHECK_EQ(grpc_body_add_copy(body, bytes, size), 0);
	return body;
}

static void echo(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	struct fixture *f = data;

	CHECK(grpc_call_peer(call) == f && grpc_call_listener(call) == &f->listener);
	grpc_call_reply(call, body_of(message, size));
}

static void fail(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	grpc_call_fail(call, GRPC_FAILED_PRECONDITION, "100 %% of the “%.*s” ist kaputt: größer",
		       (int)size, message);
}

static void release_piece(void *data)
{
	struct fixture *f = data;

	sem_post(&f->released);
}

static uint8_t pattern[PIECE_SIZE];

static struct grpc_body *body_of_pieces(struct fixture *f, int n)
{
	struct grpc_body *body = NULL;

	CHECK_EQ(grpc_body_new(&body), 0);
	for (int i = 0; i < n; i++)
		CHECK_EQ(grpc_body_add(body, pattern, sizeof(pattern), release_piece, f), 0);
	return body;
}

/* The request contains the number of pieces. */
static void big(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	grpc_call_reply(call, body_of_pieces(data, atoi((const char *)message)));
}

static void too_big(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	struct grpc_body *body;

	CHECK_EQ(grpc_body_new(&body), 0);
	CHECK_EQ(grpc_body_add(body, pattern, GRPC_MESSAGE_MAX + 1, release_piece, data), 0);
	grpc_call_reply(call, body);
}

/* As many messages as the request asks for, then a status. */
static void count(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	int n = atoi((const char *)message);

	for (int i = 0; i < n; i++)
		CHECK_EQ(grpc_call_send(call, body_of(&i, sizeof(i))), 0);
	grpc_call_finish(call, n == 3 ? GRPC_OUT_OF_RANGE : GRPC_OK, NULL);
}

static void note_cancelled(void *data)
{
	struct fixture *f = data;

	f->held = NULL;
	sem_post(&f->cancelled);
}

/* One message, and nothing more until the call is handled again. */
static void hang(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	struct fixture *f = data;

	CHECK_EQ(grpc_call_on_cancel(call, note_cancelled, f), 0);
	CHECK_EQ(grpc_call_send(call, body_of("x", 1)), 0);
	f->held = call;
	sem_post(&f->arrived);
}

#define FLOOD_PIECES 1000

/* A small message and a large one, and no end. */
static void flood(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	hang(call, message, size, data);
	CHECK_EQ(grpc_call_send(call, body_of_pieces(data, FLOOD_PIECES)), 0);
}

/* As hang, without a message and a cancel function. */
static void hold(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	struct fixture *f = data;

	f->held = call;
	sem_post(&f->arrived);
}

struct job {
	struct fixture *f;
	struct grpc_call *call;
	struct grpc_body *body;
	pthread_t thread;
};

static void job_done(void *data)
{
	struct job *job = data;

	pthread_join(job->thread, NULL);
	grpc_call_reply(job->call, job->body);
	free(job);
}

static void *job_work(void *data)
{
	struct job *job = data;

	job->body = body_of_pieces(job->f, 3);
	CHECK_EQ(loop_post(job->f->loop, job_done, job), 0);
	return NULL;
}

/* Answered by a worker thread, after handle() returned. */
static void work(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	struct job *job = calloc(1, sizeof(*job));

	*job = (struct job){ .f = data, .call = call };
	CHECK_EQ(pthread_create(&job->thread, NULL, job_work, job), 0);
}

static int accept_one(int listener_fd, void *listener_data, void *data, void **ret_peer)
{
	struct fixture *f = data;
	int fd = accept4(listener_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (f->refuse) {
		close(fd);
		return -EACCES;
	}
	f->n_peers++;
	*ret_peer = f;
	return fd;
}

static void released(void *peer, void *data)
{
	struct fixture *f = data;

	CHECK(peer == f);
	f->n_peers--;
	sem_post(&f->gone);
}

static void unlistened(void *listener_data, void *data)
{
	struct fixture *f = data;

	CHECK(listener_data == &f->listener);
	f->n_unlistened++;
	sem_post(&f->gone);
}

static const struct grpc_method methods[] = {
	{ "/test.Test/Echo", echo },   { "/test.Test/Fail", fail },
	{ "/test.Test/Big", big },     { "/test.Test/Count", count },
	{ "/test.Test/Hang", hang },   { "/test.Test/Hold", hold },
	{ "/test.Test/Work", work },   { "/test.Test/TooBig", too_big },
	{ "/test.Test/Flood", flood },
};

static void *serve(void *data)
{
	struct fixture *f = data;

	CHECK_EQ(loop_run(f->loop), 0);
	return NULL;
}

static void start_with(struct fixture *f, struct grpc_server_options options)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t size = sizeof(name);
	int fd;

	memset(f, 0, sizeof(*f));
	sem_init(&f->arrived, 0, 0);
	sem_init(&f->cancelled, 0, 0);
	sem_init(&f->released, 0, 0);
	sem_init(&f->gone, 0, 0);
	sem_init(&f->stopped, 0, 0);
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)(i * 7);
	options.methods = methods;
	options.n_methods = ARRAY_SIZE(methods);
	options.data = f;
	options.accept = accept_one;
	options.released = released;
	options.unlistened = unlistened;
	CHECK_EQ(loop_new(&f->loop), 0);
	CHECK_EQ(grpc_server_new(f->loop, &options, &f->server), 0);
	/* A bind without a name lets the kernel choose an abstract one. */
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_EQ(bind(fd, (struct sockaddr *)&name, sizeof(sa_family_t)), 0);
	CHECK_EQ(listen(fd, 64), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&name, &size), 0);
	size -= (socklen_t)offsetof(struct sockaddr_un, sun_path);
	snprintf(f->address, sizeof(f->address), "unix-abstract:%.*s", (int)size - 1,
		 name.sun_path + 1);
	CHECK_EQ(grpc_server_listen(f->server, fd, NULL, &f->listener, &f->listener), 0);
	CHECK_EQ(pthread_create(&f->thread, NULL, serve, f), 0);
}

static void start(struct fixture *f)
{
	start_with(f, (struct grpc_server_options){ 0 });
}

static void exit_loop(void *data)
{
	struct fixture *f = data;

	loop_exit(f->loop, 0);
}

static void end(struct fixture *f)
{
	loop_post_surely(f->loop, exit_loop, f);
	pthread_join(f->thread, NULL);
	grpc_server_free(f->server);
	CHECK_EQ(f->n_peers, 0);
	CHECK_EQ(f->n_unlistened, 1);
	loop_free(f->loop);
}

/* The result of a unary call. */
struct answer {
	int error;
	enum grpc_status status;
	char *status_message;
	uint8_t *bytes;
	size_t size;
};

static struct answer call_with(struct grpc_client *client, const char *method, const void *request,
			       size_t size, const struct grpc_client_options *options)
{
	struct answer a = { 0 };
	char path[64];

	snprintf(path, sizeof(path), "/test.Test/%s", method);
	a.error = grpc_client_call(client, path, request, size, options, &a.bytes, &a.size,
				   &a.status, &a.status_message);
	return a;
}

static struct answer call(struct grpc_client *client, const char *method, const char *request)
{
	return call_with(client, method, request, strlen(request) + 1, NULL);
}

static void answer_end(struct answer *a)
{
	free(a->bytes);
	free(a->status_message);
}

static struct grpc_client *connect_to(struct fixture *f)
{
	struct grpc_client *client = NULL;
	char *reason;

	CHECK_EQ(grpc_client_connect(f->address, NULL, 0, &client, &reason), 0);
	return client;
}

static void check_echo(struct grpc_client *client)
{
	_cleanup_(answer_end) struct answer a = call(client, "Echo", "hello");

	CHECK_EQ(a.error, 0);
	CHECK_EQ(a.status, GRPC_OK);
	CHECK(a.size == 6 && !memcmp(a.bytes, "hello", 6));
}

TEST(a_unary_call_is_answered_many_times_on_one_connection)
{
	struct grpc_client *client;
	struct fixture f;

	start(&f);
	client = connect_to(&f);
	for (int i = 0; i < 300; i++)
		check_echo(client);
	grpc_client_free(client);
	end(&f);
}

TEST(empty_messages_go_both_ways)
{
	struct grpc_client *client;
	struct fixture f;
	struct answer a;

	start(&f);
	client = connect_to(&f);
	a = call_with(client, "Echo", NULL, 0, NULL);
	CHECK_EQ(a.error, 0);
	CHECK_EQ(a.status, GRPC_OK);
	CHECK(a.bytes != NULL);
	CHECK_EQ(a.size, 0);
	answer_end(&a);
	grpc_client_free(client);
	end(&f);
}

static void check_big(struct fixture *f, struct grpc_client *client, const char *method, int pieces)
{
	char request[16];
	bool same = true;
	struct answer a;

	snprintf(request, sizeof(request), "%d", pieces);
	a = call(client, method, request);
	CHECK_EQ(a.error, 0);
	CHECK_EQ(a.status, GRPC_OK);
	CHECK_EQ(a.size, (size_t)pieces * PIECE_SIZE);
	for (size_t i = 0; same && i < a.size; i += PIECE_SIZE)
		same = !memcmp(a.bytes + i, pattern, PIECE_SIZE);
	CHECK(same);
	answer_end(&a);
}

TEST(a_body_of_64_MB_in_pieces_arrives_whole_and_each_piece_is_released_once)
{
	struct grpc_client *client;
	struct fixture f;
	int n = 0;

	start(&f);
	client = connect_to(&f);
	check_big(&f, client, "Big", 671);
	check_echo(client);
	grpc_client_free(client);
	end(&f);
	while (sem_trywait(&f.released) == 0)
		n++;
	CHECK_EQ(n, 671);
}

TEST(a_request_of_the_largest_size_passes_and_a_larger_one_is_RESOURCE_EXHAUSTED)
{
	struct grpc_client *client;
	struct fixture f;
	struct answer a;

	start_with(&f, (struct grpc_server_options){ .max_message = PIECE_SIZE - 1 });
	client = connect_to(&f);
	a = call_with(client, "Echo", pattern, PIECE_SIZE - 1, NULL);
	CHECK_EQ(a.error, 0);
	CHECK_EQ(a.status, GRPC_OK);
	CHECK(a.size == PIECE_SIZE - 1 && !memcmp(a.bytes, pattern, PIECE_SIZE - 1));
	answer_end(&a);
	a = call_with(client, "Echo", pattern, PIECE_SIZE, NULL);
	CHECK_EQ(a.error, 0);
	CHECK_EQ(a.status, GRPC_RESOURCE_EXHAUSTED);
	answer_end(&a);
	check_echo(client);
	grpc_client_free(client);
	end(&f);
}

TEST(an_answer_above_2_GiB_is_RESOURCE_EXHAUSTED)
{
	struct grpc_client *client;
	struct fixture f;
	struct answer a;

	start(&f);
	client = connect_to(&f);
	a = call(client, "TooBig", "");
	CHECK_EQ(a.error, 0);
	CHECK_EQ(a.status, GRPC_RESOURCE_EXHAUSTED);
	CHECK(wait_for(&f.released));
	answer_end(&a);
	grpc_client_free(client);
	end(&f);
}

TEST(a_failing_call_gives_its_code_and_its_message_in_any_language)
{
	struct grpc_client *client;
	struct fixture f;
	struct answer a;

	start(&f);
	client = connect_to(&f);
	a = call_with(client, "Fail", "ж", 2, NULL);
	CHECK_EQ(a.error, 0);
	CHECK_EQ(a.status, GRPC_FAILED_PRECONDITION);
	CHECK_STR(a.status_message, "100 % of the “ж” ist kaputt: größer");
	CHECK(!a.bytes);
	answer_end(&a);
	grpc_client_free(client);
	end(&f);
}

TEST(an_unknown_method_is_UNIMPLEMENTED)
{
	struct grpc_client *client;
	struct fixture f;
	struct answer a;

	start(&f);
	client = connect_to(&f);
	a = call(client, "Nothing", "hello");
	CHECK_EQ(a.error, 0);
	CHECK_EQ(a.status, GRPC_UNIMPLEMENTED);
	answer_end(&a);
	check_echo(client);
	grpc_client_free(client);
	end(&f);
}

/* Calls a method that streams; its status is in the result. */
static struct answer stream(struct grpc_client *client, const char *method, const char *request,
			    grpc_message_fn message, void *data)
{
	struct answer a = { 0 };
	char path[64];

	snprintf(path, sizeof(path), "/test.Test/%s", method);
	a.error = grpc_client_stream(client, path, request, strlen(request) + 1, NULL, message,
				     data, &a.status, &a.status_message);
	return a;
}

static int expect_next(uint8_t *bytes, size_t size, void *data)
{
	struct fixture *f = data;
	int number = -1;

	CHECK_EQ(size, sizeof(number));
	memcpy(&number, bytes, sizeof(number));
	CHECK_EQ(number, f->n_messages++);
	free(bytes);
	return 0;
}

TEST(the_messages_of_a_stream_arrive_in_order_and_the_status_after_them)
{
	struct grpc_client *client;
	struct fixture f;
	struct answer a;

	start(&f);
	client = connect_to(&f);
	a = stream(client, "Count", "20000", expect_next, &f);
	CHECK_EQ(a.error, 0);
	CHECK_EQ(a.status, GRPC_OK);
	CHECK_EQ(f.n_messages, 20000);
	f.n_messages = 0;
	a = stream(client, "Count", "3", expect_next, &f);
	CHECK_EQ(a.error, 0);
	CHECK_EQ(a.status, GRPC_OUT_OF_RANGE);
	CHECK_EQ(f.n_messages, 3);
	f.n_messages = 0;
	a = stream(client, "Count", "0", expect_next, &f);
	CHECK_EQ(a.error, 0);
	CHECK_EQ(a.status, GRPC_OK);
	CHECK(!a.status_message);
	grpc_client_free(client);
	end(&f);
}

static void send_and_finish(void *data)
{
	struct fixture *f = data;

	CHECK_EQ(grpc_call_send(f->held, body_of("y", 1)), 0);
	grpc_call_fail(f->held, GRPC_ABORTED, "later");
}

static int post_on_first(uint8_t *bytes, size_t size, void *data)
{
	struct fixture *f = data;

	CHECK(size == 1 && bytes[0] == (f->n_messages ? 'y' : 'x'));
	if (!f->n_messages++)
		CHECK_EQ(loop_post(f->loop, send_and_finish, f), 0);
	free(bytes);
	return 0;
}

TEST(a_stream_goes_on_long_after_its_method_returned)
{
	struct grpc_client *client;
	struct fixture f;
	struct answer a;

	start(&f);
	client = connect_to(&f);
	a = stream(client, "Hang", "", post_on_first, &f);
	CHECK_EQ(a.error, 0);
	CHECK_EQ(f.n_messages, 2);
	CHECK_EQ(a.status, GRPC_ABORTED);
	CHECK_STR(a.status_message, "later");
	answer_end(&a);
	grpc_client_free(client);
	end(&f);
	CHECK(sem_trywait(&f.cancelled) < 0);
}

static int stop_at_once(uint8_t *bytes, size_t size, void *data)
{
	free(bytes);
	return -EXFULL;
}

TEST(a_client_that_stops_reading_a_stream_cancels_the_call)
{
	struct grpc_client *client;
	struct fixture f;
	struct answer a;

	start(&f);
	client = connect_to(&f);
	a = stream(client, "Hang", "", stop_at_once, &f);
	CHECK_EQ(a.error, -EXFULL);
	CHECK(wait_for(&f.cancelled));
	check_echo(client);
	grpc_client_free(client);
	end(&f);
}

static volatile sig_atomic_t interrupted;

static void *interrupt_on_arrival(void *data)
{
	struct fixture *f = data;

	CHECK(wait_for(&f->arrived));
	interrupted = 1;
	return NULL;
}

TEST(a_flag_cancels_the_call)
{
	const struct grpc_client_options options = { .cancelled = &interrupted };
	struct grpc_client *client;
	pthread_t thread;
	struct fixture f;
	struct answer a;

	start(&f);
	client = connect_to(&f);
	interrupted = 0;
	pthread_create(&thread, NULL, interrupt_on_arrival, &f);
	a = call_with(client, "Hang", "", 0, &options);
	CHECK_EQ(a.error, -ECANCELED);
	pthread_join(thread, NULL);
	CHECK(wait_for(&f.cancelled));
	check_echo(client);
	grpc_client_free(client);
	end(&f);
}

TEST(a_call_that_is_not_answered_in_time_is_DEADLINE_EXCEEDED_and_its_method_is_notified)
{
	const struct grpc_client_options options = { .timeout_ns = 20000000 };
	struct grpc_client *client;
	struct fixture f;
	struct answer a;

	start(&f);
	client = connect_to(&f);
	a = call_with(client, "Hang", "", 0, &options);
	CHECK_EQ(a.error, 0);
	CHECK_EQ(a.status, GRPC_DEADLINE_EXCEEDED);
	CHECK(wait_for(&f.cancelled));
	answer_end(&a);
	check_echo(client);
	grpc_client_free(client);
	end(&f);
}

static void answer_late(void *data)
{
	struct fixture *f = data;

	CHECK(grpc_call_cancelled(f->held));
	CHECK_EQ(grpc_call_on_cancel(f->held, note_cancelled, f), -ECANCELED);
	CHECK_EQ(grpc_call_send(f->held, body_of_pieces(f, 1)), -ECANCELED);
	grpc_call_reply(f->held, body_of_pieces(f, 1));
	sem_post(&f->cancelled);
}

TEST(a_call_without_a_cancel_function_can_be_answered_after_its_deadline_and_its_connection)
{
	const struct grpc_client_options options = { .timeout_ns = 20000000 };
	struct grpc_client *client;
	struct fixture f;
	struct answer a;

	start(&f);
	client = connect_to(&f);
	a = call_with(client, "Hold", "", 0, &options);
	CHECK_EQ(a.status, GRPC_DEADLINE_EXCEEDED);
	answer_end(&a);
	CHECK_EQ(loop_post(f.loop, answer_late, &f), 0);
	CHECK(wait_for(&f.cancelled) && wait_for(&f.released) && wait_for(&f.released));
	a = call_with(client, "Hold", "", 0, &options);
	CHECK_EQ(a.status, GRPC_DEADLINE_EXCEEDED);
	answer_end(&a);
	grpc_client_free(client);
	CHECK(wait_for(&f.gone));
	CHECK_EQ(loop_post(f.loop, answer_late, &f), 0);
	CHECK(wait_for(&f.cancelled) && wait_for(&f.released) && wait_for(&f.released));
	end(&f);
}

static void *many_calls(void *data)
{
	struct fixture *f = data;
	struct grpc_client *client = connect_to(f);

	for (int i = 0; i < 20; i++) {
		check_big(f, client, "Work", 3);
		check_echo(client);
	}
	grpc_client_free(client);
	return NULL;
}

TEST(many_clients_at_once_get_their_answers_from_worker_threads)
{
	pthread_t threads[16];
	struct fixture f;

	start(&f);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, many_calls, &f), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	end(&f);
}

static int n_taken;

static int hang_up(uint8_t *bytes, size_t size, void *data)
{
	n_taken++;
	free(bytes);
	shutdown(*(int *)data, SHUT_RDWR);
	return 0;
}

TEST(a_connection_that_drops_in_the_middle_of_a_large_answer_releases_all_of_it)
{
	struct grpc_client *client;
	struct fixture f;
	struct answer a;
	int fd = -1;

	start(&f);
	CHECK_EQ(grpc_address_connect(f.address, 0, &fd, NULL), 0);
	CHECK_EQ(grpc_client_new(fd, NULL, NULL, &client), 0);
	n_taken = 0;
	a = stream(client, "Flood", "", hang_up, &fd);
	CHECK_EQ(a.error, -ECONNRESET);
	CHECK_EQ(n_taken, 1);
	grpc_client_free(client);
	CHECK(wait_for(&f.cancelled));
	for (int i = 0; i < FLOOD_PIECES; i++)
		CHECK(wait_for(&f.released));
	end(&f);
}

static int wait_until_cancelled(uint8_t *bytes, size_t size, void *data)
{
	struct fixture *f = data;

	f->n_messages++;
	free(bytes);
	CHECK(wait_for(&f->cancelled));
	return 0;
}

TEST(a_client_that_does_not_read_its_answer_loses_its_call)
{
	struct grpc_client *client;
	struct fixture f;
	struct answer a;

	start_with(&f, (struct grpc_server_options){ .stall_ns = 50000000 });
	client = connect_to(&f);
	a = stream(client, "Flood", "", wait_until_cancelled, &f);
	CHECK(a.error < 0 || a.status != GRPC_OK);
	CHECK_EQ(f.n_messages, 1);
	answer_end(&a);
	grpc_client_free(client);
	for (int i = 0; i < FLOOD_PIECES; i++)
		CHECK(wait_for(&f.released));
	end(&f);
}

TEST(a_rejected_connection_is_closed)
{
	struct grpc_client *client;
	struct fixture f;
	struct answer a;

	start(&f);
	f.refuse = 1;
	client = connect_to(&f);
	a = call(client, "Echo", "hello");
	CHECK(a.error == -ECONNRESET || a.error == -EPIPE);
	a = call(client, "Echo", "hello");
	CHECK(a.error < 0);
	grpc_client_free(client);
	end(&f);
}

TEST(an_idle_connection_makes_room_for_a_new_one)
{
	struct grpc_client *first, *second;
	struct fixture f;
	struct answer a;

	start_with(&f, (struct grpc_server_options){ .max_connections = 1 });
	first = connect_to(&f);
	check_echo(first);
	second = connect_to(&f);
	check_echo(second);
	a = call(first, "Echo", "hello");
	CHECK(a.error == -ECONNRESET || a.error == -EPIPE);
	grpc_client_free(first);
	grpc_client_free(second);
	end(&f);
}

static void note_stopped(void *data)
{
	struct fixture *f = data;

	sem_post(&f->stopped);
}

static void stop_server(void *data)
{
	struct fixture *f = data;

	grpc_server_stop(f->server, note_stopped, f);
}

static int stop_on_first(uint8_t *bytes, size_t size, void *data)
{
	struct fixture *f = data;

	if (!f->n_messages++) {
		CHECK_EQ(loop_post(f->loop, stop_server, f), 0);
		CHECK_EQ(loop_post(f->loop, send_and_finish, f), 0);
	}
	free(bytes);
	return 0;
}

TEST(a_stopped_server_finishes_its_calls_and_reports_its_end)
{
	struct grpc_client *client, *late = NULL;
	struct fixture f;
	struct answer a;
	char *reason;

	start(&f);
	client = connect_to(&f);
	a = stream(client, "Hang", "", stop_on_first, &f);
	CHECK_EQ(a.error, 0);
	CHECK_EQ(a.status, GRPC_ABORTED);
	CHECK_STR(a.status_message, "later");
	answer_end(&a);
	CHECK_EQ(grpc_client_connect(f.address, NULL, 0, &late, &reason), -ECONNREFUSED);
	a = call(client, "Echo", "hello");
	CHECK_EQ(a.error, -ECONNRESET);
	CHECK(wait_for(&f.stopped));
	grpc_client_free(client);
	end(&f);
}

static void stop_listening(void *data)
{
	struct fixture *f = data;

	grpc_server_unlisten(f->server, f->listener);
	CHECK_EQ(f->n_unlistened, 0);
	sem_post(&f->arrived);
}

TEST(a_closed_listener_is_reported_when_its_last_connection_has_gone)
{
	struct grpc_client *client;
	struct fixture f;

	start(&f);
	client = connect_to(&f);
	check_echo(client);
	CHECK_EQ(loop_post(f.loop, stop_listening, &f), 0);
	CHECK(wait_for(&f.arrived));
	grpc_client_free(client);
	CHECK(wait_for(&f.gone) && wait_for(&f.gone));
	CHECK_EQ(f.n_unlistened, 1);
	end(&f);
}

static bool closed_by_server(int fd)
{
	char buffer[4096];
	ssize_t n;

	do
		n = recv(fd, buffer, sizeof(buffer), 0);
	while (n > 0);
	return n == 0 || errno == ECONNRESET;
}

static void check_raw(struct fixture *f, const char *bytes, size_t size)
{
	int fd = -1;

	CHECK_EQ(grpc_address_connect(f->address, 0, &fd, NULL), 0);
	CHECK_EQ(fcntl(fd, F_SETFL, 0), 0);
	CHECK_EQ(send(fd, bytes, size, MSG_NOSIGNAL), size);
	CHECK(closed_by_server(fd));
	close(fd);
}

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define SETTINGS "\0\0\0\4\0\0\0\0\0"

TEST(peers_without_HTTP_2_and_silent_peers_are_closed_without_affecting_others)
{
	struct grpc_client *client;
	struct fixture f;

	start_with(&f, (struct grpc_server_options){ .handshake_ns = 50000000,
						     .request_ns = 50000000 });
	client = connect_to(&f);
	check_echo(client);
	check_raw(&f, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27);
	check_raw(&f, PREFACE "GET / HTTP/1.1\r\nHost: a\r\n\r\n", sizeof(PREFACE) - 1 + 27);
	check_raw(&f, "", 0);
	check_raw(&f, PREFACE, sizeof(PREFACE) - 1);
	/* A header block that never ends. */
	check_raw(&f, PREFACE SETTINGS "\0\0\1\1\0\0\0\0\1\x83", sizeof(PREFACE) - 1 + 9 + 10);
	/* Pings for nothing. */
	check_raw(&f,
		  PREFACE SETTINGS "\0\0\x8\6\0\0\0\0\0abcdefgh\0\0\x8\6\0\0\0\0\0abcdefgh"
				   "\0\0\x8\6\0\0\0\0\0abcdefgh\0\0\x8\6\0\0\0\0\0abcdefgh",
		  sizeof(PREFACE) - 1 + 9 + 4 * 17);
	check_echo(client);
	grpc_client_free(client);
	end(&f);
}

TEST(invalid_addresses_are_refused)
{
	char long_name[200];
	int fd;

	memset(long_name, 'a', sizeof(long_name));
	long_name[0] = '@';
	long_name[sizeof(long_name) - 1] = 0;
	CHECK_EQ(grpc_address_connect("unix:", 0, &fd, NULL), -EINVAL);
	CHECK_EQ(grpc_address_connect("localhost", 0, &fd, NULL), -EINVAL);
	CHECK_EQ(grpc_address_connect("::1:80", 0, &fd, NULL), -EINVAL);
	CHECK_EQ(grpc_address_connect("[::1:80", 0, &fd, NULL), -EINVAL);
	CHECK_EQ(grpc_address_connect("127.0.0.1:", 0, &fd, NULL), -EINVAL);
	CHECK_EQ(grpc_address_connect("127.0.0.1:http", 0, &fd, NULL), -EHOSTUNREACH);
	CHECK_EQ(grpc_address_connect(long_name, 0, &fd, NULL), -ENAMETOOLONG);
	CHECK_EQ(grpc_address_connect("@no such socket", 0, &fd, NULL), -ECONNREFUSED);
	CHECK_EQ(grpc_address_connect("/no/such/socket", 0, &fd, NULL), -ENOENT);
}

CHECK_MAIN()
