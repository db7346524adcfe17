/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends predict requests to a test server, each with an id of its own, and says of each when it was
 * sent and answered. One thread with one epoll, so that its own delays are small; ids are also the
 * values that the model gets.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

#include "lib/base/macro.h"
#include "tests/servers/load_link.h"

#define CLIENTS_MAX 256
#define PIPELINE_MAX 64
#define ROWS_MAX 1024
#define EVENTS_MAX 64
#define REQUESTS_MAX (1 << 21)
/* Above it not every id, nor half of it, is exact as a float. */
#define ID_MAX (1 << 23)
#define SLOW_EVERY 20
#define ERRORS_MAX 100
#define ANSWER_TIMEOUT_NS 30000000000
/* What a late client may catch up with. */
#define LATE_MAX_NS 10000000
#define NS_PER_S 1000000000

struct options {
	struct link_options link;
	const char *log;
	long clients, shared, count, rate, id_base, pipeline, warm;
	double duration_s;
	bool wait_start;
	char host[256];
};

struct client {
	struct link *link;
	long waiting; /* answers that it waits for */
	long warm;    /* requests to send before the load begins */
};

struct connection {
	struct link link;
	uint32_t events; /* that epoll watches; 0: it is not watched */
};

enum phase { PHASE_WARM, PHASE_WAIT, PHASE_LOAD, PHASE_END };

struct load {
	struct options o;
	enum phase phase;
	int epoll, signals;
	struct connection connections[CLIENTS_MAX];
	size_t connections_n;
	struct client clients[CLIENTS_MAX];
	uint32_t ready[CLIENTS_MAX]; /* a ring of clients that wait for nothing */
	size_t ready_first, ready_n;
	uint64_t start_ns, until_ns, due_ns, sent_ns;
	long sent, waiting;
	struct exchange **done;
	size_t done_n, errors;
	const char *first_error;
};

enum {
	KEY_REST = 256,
	KEY_GRPC,
	KEY_MODEL,
	KEY_CLIENTS,
	KEY_SHARED,
	KEY_COUNT,
	KEY_DURATION,
	KEY_RATE,
	KEY_ID_BASE,
	KEY_PIPELINE,
	KEY_CHUNKED,
	KEY_SLOW_READ,
	KEY_LOG,
	KEY_WAIT_START,
	KEY_WARM,
	KEY_ROWS,
	KEY_WIDTH
};

static const struct argp_option option_list[] = {
	{ "rest", KEY_REST, "HOST:PORT", 0, "Send HTTP/1.1 there", 0 },
	{ "grpc", KEY_GRPC, "HOST:PORT", 0, "Send gRPC there", 0 },
	{ "model", KEY_MODEL, "NAME", 0, "Model to ask (half_plus_two)", 0 },
	{ "rows", KEY_ROWS, "N", 0, "Rows of an input (1)", 0 },
	{ "width", KEY_WIDTH, "N", 0,
	  "Values in a row, which then are not checked; 0: rows are numbers (0)", 0 },
	{ "clients", KEY_CLIENTS, "N", 0,
	  "Clients, each of which waits for its answer before it goes on (1)", 0 },
	{ "shared", KEY_SHARED, "N", 0, "Connections that gRPC clients share (each has its own)",
	  0 },
	{ "pipeline", KEY_PIPELINE, "N", 0, "Requests that an HTTP/1.1 client sends at once (1)",
	  0 },
	{ "chunked", KEY_CHUNKED, NULL, 0, "Send HTTP/1.1 bodies in chunks", 0 },
	{ "slow-read", KEY_SLOW_READ, "MS", 0,
	  "Read each 20th answer of HTTP/1.1 with such a pause after its start", 0 },
	{ "count", KEY_COUNT, "N", 0, "End after so many requests", 0 },
	{ "duration", KEY_DURATION, "S", 0, "End after so many seconds (5, or none with --count)",
	  0 },
	{ "rate", KEY_RATE, "N", 0,
	  "Requests per second, all clients together; 0: as many as they can (0)", 0 },
	{ "id-base", KEY_ID_BASE, "N", 0, "The first request's id (1)", 0 },
	{ "warm", KEY_WARM, "N", 0,
	  "Requests of each client before the load, with 0 for an id; they are not counted", 0 },
	{ "wait-start", KEY_WAIT_START, NULL, 0,
	  "Once connected, and warm, print \"connected\" and begin when a line comes on standard input",
	  0 },
	{ "log", KEY_LOG, "FILE", 0, "Write one JSON object per request there", 0 },
	{ 0 },
};

static void address_read(struct options *o, const char *argument, struct argp_state *state)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found;
	const char *colon = strrchr(argument, ':');

	if (!colon || (size_t)(colon - argument) >= sizeof(o->host))
		argp_error(state, "'%s' is not HOST:PORT", argument);
	snprintf(o->host, sizeof(o->host), "%.*s", (int)(colon - argument), argument);
	if (getaddrinfo(o->host, colon + 1, &hints, &found))
		argp_error(state, "'%s' is not an address", argument);
	memcpy(&o->link.address, found->ai_addr, sizeof(o->link.address));
	freeaddrinfo(found);
	o->link.host = argument;
}

static long number_read(const char *argument, long least, long most, struct argp_state *state)
{
	char *end;
	long number = strtol(argument, &end, 10);

	if (!*argument || *end || number < least || number > most)
		argp_error(state, "'%s' is not a number from %ld to %ld", argument, least, most);
	return number;
}

static void options_check(struct options *o, struct argp_state *state)
{
	if (!o->link.host)
		argp_error(state, "--rest or --grpc sets the address");
	if (o->link.grpc && (o->link.chunked || o->link.slow_read_ms || o->pipeline > 1))
		argp_error(state, "--chunked, --slow-read and --pipeline are for --rest");
	if (!o->link.grpc && o->shared)
		argp_error(state, "--shared is for --grpc");
	if (o->shared > o->clients)
		o->shared = o->clients;
	if (!o->duration_s && !o->count)
		o->duration_s = 5;
}

static error_t option_read(int key, char *argument, struct argp_state *state)
{
	struct options *o = state->input;
	char *end;

	switch (key) {
	case KEY_REST:
	case KEY_GRPC:
		o->link.grpc = key == KEY_GRPC;
		address_read(o, argument, state);
		return 0;
	case KEY_MODEL:
		o->link.model = argument;
		return 0;
	case KEY_ROWS:
		o->link.rows = number_read(argument, 1, ROWS_MAX, state);
		return 0;
	case KEY_WIDTH:
		o->link.width = number_read(argument, 0, TENSOR_VALUES_MAX / ROWS_MAX, state);
		return 0;
	case KEY_CLIENTS:
		o->clients = number_read(argument, 1, CLIENTS_MAX, state);
		return 0;
	case KEY_SHARED:
		o->shared = number_read(argument, 1, CLIENTS_MAX, state);
		return 0;
	case KEY_PIPELINE:
		o->pipeline = number_read(argument, 1, PIPELINE_MAX, state);
		return 0;
	case KEY_CHUNKED:
		o->link.chunked = true;
		return 0;
	case KEY_SLOW_READ:
		o->link.slow_read_ms = number_read(argument, 1, 10000, state);
		return 0;
	case KEY_COUNT:
		o->count = number_read(argument, 1, REQUESTS_MAX, state);
		return 0;
	case KEY_DURATION:
		o->duration_s = strtod(argument, &end);
		if (!*argument || *end || !(o->duration_s > 0 && o->duration_s <= 86400))
			argp_error(state, "'%s' is not a number of seconds", argument);
		return 0;
	case KEY_RATE:
		o->rate = number_read(argument, 0, 1000000, state);
		return 0;
	case KEY_ID_BASE:
		o->id_base = number_read(argument, 1, ID_MAX, state);
		return 0;
	case KEY_WARM:
		o->warm = number_read(argument, 0, 10000, state);
		return 0;
	case KEY_WAIT_START:
		o->wait_start = true;
		return 0;
	case KEY_LOG:
		o->log = argument;
		return 0;
	case ARGP_KEY_END:
		options_check(o, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = option_list,
	.parser = option_read,
	.doc = "Sends predict requests and prints {\"requests\", \"errors\", \"seconds\", \"requests_per_s\", \"p50_ms\", "
	       "\"p99_ms\"}; latencies are from before a request's first byte is sent until after its answer's last one is "
	       "received.",
};

static void error_note(struct load *l, const char *error)
{
	l->errors++;
	if (!l->first_error)
		l->first_error = error;
}

static void client_ready(struct load *l, uint32_t client)
{
	l->ready[(l->ready_first + l->ready_n++) % CLIENTS_MAX] = client;
}

/* Called while a connection takes in bytes: nothing is sent from here. */
static void exchange_answered(void *user, struct exchange *e)
{
	struct load *l = user;
	struct client *c = &l->clients[e->client];

	l->waiting--;
	if (!--c->waiting)
		client_ready(l, e->client);
	if (e->error)
		error_note(l, e->error);
	if (e->warm || !l->done) {
		free(e);
		return;
	}
	l->done[l->done_n++] = e;
}

/* What a connection is watched for: a pause in reading must not wake us. */
static int connection_watch(struct load *l, struct connection *c)
{
	struct link *k = &c->link;
	uint32_t wanted = k->fd < 0 ? 0 : (uint32_t)EPOLLIN;
	struct epoll_event event = { .data.ptr = c };

	if (wanted && k->pause_until_ns > link_now_ns())
		wanted = EPOLLRDHUP;
	if (wanted && k->output.used)
		wanted |= EPOLLOUT;
	if (wanted == c->events)
		return 0;
	event.events = wanted;
	/* A closed descriptor has left the epoll by itself. */
	if (wanted &&
	    epoll_ctl(l->epoll, c->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, k->fd, &event) < 0)
		return -errno;
	c->events = wanted;
	return 0;
}

static void connection_close(struct load *l, struct connection *c, const char *error)
{
	link_close(&c->link, error);
	connection_watch(l, c);
}

static int connection_open(struct load *l, struct connection *c)
{
	int r = link_open(&c->link);

	return r < 0 ? r : connection_watch(l, c);
}

/* Sends what the client sends at once. */
static int client_send(struct load *l, uint32_t index, long n)
{
	struct client *c = &l->clients[index];
	struct connection *connection = container_of(c->link, struct connection, link);
	bool warm = l->phase == PHASE_WARM;
	int r = 0;

	if (c->link->close && !c->link->outstanding)
		connection_close(l, connection, NULL);
	if (c->link->fd < 0)
		r = connection_open(l, connection);
	/* Counted before, for a connection that fails answers what is outstanding. */
	c->waiting = r < 0 ? 0 : n;
	l->waiting += c->waiting;
	l->sent_ns = link_now_ns();
	for (long i = 0; r >= 0 && i < n; i++) {
		struct exchange *e = calloc(1, sizeof(*e));

		if (!e)
			return -ENOMEM;
		e->client = index;
		e->warm = warm;
		if (warm) {
			c->warm--;
		} else {
			e->id = (uint64_t)(l->o.id_base + l->sent++);
			e->slow = l->o.link.slow_read_ms && l->sent % SLOW_EVERY == 0;
		}
		r = link_request(c->link, e, i + 1 < n);
		if (r < 0) {
			/* Those that were not made cannot be answered. */
			c->waiting -= n - i - 1;
			l->waiting -= n - i - 1;
		}
	}
	if (r >= 0)
		return connection_watch(l, connection);
	if (c->waiting) {
		connection_close(l, connection, "a request could not be sent");
	} else {
		error_note(l, "the connection could not be opened");
		client_ready(l, index);
	}
	return 0;
}

/* How many requests may be sent at once now; 0: none any more. */
static long sends_left(const struct load *l)
{
	long left = l->o.pipeline;

	if (l->errors >= ERRORS_MAX || l->phase == PHASE_END)
		return 0;
	if (l->o.count)
		left = MIN(left, l->o.count - l->sent);
	left = MIN(left, REQUESTS_MAX - l->sent);
	left = MIN(left, ID_MAX - l->o.id_base - l->sent + 1);
	return l->until_ns && link_now_ns() >= l->until_ns ? 0 : MAX(left, 0);
}

static uint32_t ready_take(struct load *l)
{
	uint32_t client = l->ready[l->ready_first];

	l->ready_first = (l->ready_first + 1) % CLIENTS_MAX;
	l->ready_n--;
	return client;
}

/* Each client that is ready and not warm yet sends one. */
static int warm_send(struct load *l)
{
	int r = 0;

	for (size_t n = l->ready_n; n && r >= 0; n--) {
		uint32_t client = ready_take(l);

		if (l->clients[client].warm && l->errors < ERRORS_MAX)
			r = client_send(l, client, 1);
		else
			client_ready(l, client);
	}
	return r;
}

/* Sends what is due. */
static int load_send(struct load *l)
{
	long n;
	int r = 0;

	while (r >= 0 && l->ready_n && (n = sends_left(l))) {
		uint64_t now = link_now_ns();

		if (l->o.rate) {
			if (now < l->due_ns)
				break;
			l->due_ns += (uint64_t)n * NS_PER_S / (uint64_t)l->o.rate;
			if (l->due_ns + LATE_MAX_NS < now)
				l->due_ns = now - LATE_MAX_NS;
		}
		r = client_send(l, ready_take(l), n);
	}
	return r;
}

static int connection_serve(struct load *l, struct connection *c, uint32_t events)
{
	struct link *k = &c->link;
	int r = 0;

	if (k->fd < 0)
		return 0;
	if (events & EPOLLOUT)
		r = link_flush(k);
	if (r >= 0 && events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		r = link_receive(k);
	if (r < 0 || (k->close && !k->outstanding)) {
		connection_close(l, c,
				 r == -ECONNRESET ? "the server closed the connection"
						  : "the connection failed");
		return 0;
	}
	return connection_watch(l, c);
}

/* Goes on with connections whose pause in reading is over; returns when the next one is, 0: none
 * pauses. */
static uint64_t pauses_end(struct load *l, uint64_t now)
{
	uint64_t next = 0;

	for (size_t i = 0; l->o.link.slow_read_ms && i < l->connections_n; i++) {
		struct link *k = &l->connections[i].link;

		if (k->fd < 0 || !k->pause_until_ns)
			continue;
		if (k->pause_until_ns <= now) {
			k->pause_until_ns = 0;
			connection_serve(l, &l->connections[i], EPOLLIN);
		} else if (!next || k->pause_until_ns < next) {
			next = k->pause_until_ns;
		}
	}
	return next;
}

static void load_begin(struct load *l)
{
	l->phase = PHASE_LOAD;
	l->start_ns = l->due_ns = link_now_ns();
	if (l->o.duration_s)
		l->until_ns = l->start_ns + (uint64_t)(l->o.duration_s * 1e9);
}

/* Connected, and warm. */
static int load_wait(struct load *l)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };

	l->phase = PHASE_WAIT;
	if (!l->o.wait_start) {
		load_begin(l);
		return 0;
	}
	puts("connected");
	fflush(stdout);
	/* A file cannot be waited for: its line is there. */
	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, STDIN_FILENO, &event) < 0)
		load_begin(l);
	return 0;
}

static bool warm_done(const struct load *l)
{
	if (l->waiting)
		return false;
	for (long i = 0; i < l->o.clients && l->errors < ERRORS_MAX; i++)
		if (l->clients[i].warm)
			return false;
	return true;
}

/* Moves on to the next phase when it is time. */
static int phase_step(struct load *l)
{
	int r = 0;

	if (l->phase == PHASE_WARM) {
		r = warm_send(l);
		if (r >= 0 && warm_done(l))
			r = l->errors ? (l->phase = PHASE_END, 0) : load_wait(l);
	}
	if (r >= 0 && l->phase == PHASE_LOAD) {
		r = load_send(l);
		if (r >= 0 && !sends_left(l))
			l->phase = PHASE_END;
	}
	return r;
}

/* Until when to wait; 0: without end. */
static uint64_t wake_ns(const struct load *l, uint64_t pause)
{
	uint64_t wake = pause;

	if (l->phase == PHASE_LOAD && l->o.rate && l->ready_n && (!wake || l->due_ns < wake))
		wake = l->due_ns;
	if (l->phase == PHASE_LOAD && l->until_ns && (!wake || l->until_ns < wake))
		wake = l->until_ns;
	if (l->waiting && l->sent_ns && (!wake || l->sent_ns + ANSWER_TIMEOUT_NS < wake))
		wake = l->sent_ns + ANSWER_TIMEOUT_NS;
	return wake;
}

static void event_serve(struct load *l, const struct epoll_event *event)
{
	char line[256];

	if (event->data.ptr == &l->signals) {
		l->phase = PHASE_END;
	} else if (event->data.ptr) {
		connection_serve(l, event->data.ptr, event->events);
	} else {
		ssize_t n = read(STDIN_FILENO, line, sizeof(line));

		if (n <= 0 || memchr(line, '\n', (size_t)n)) {
			epoll_ctl(l->epoll, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
			load_begin(l);
		}
	}
}

static int load_run(struct load *l)
{
	struct epoll_event events[EVENTS_MAX];
	int r = 0;

	for (;;) {
		uint64_t now = link_now_ns(), pause = pauses_end(l, now), wake;
		struct timespec timeout = { 0 };

		r = phase_step(l);
		if (r < 0 || (l->phase == PHASE_END && !l->waiting))
			return r;
		if (l->waiting && l->sent_ns && now > l->sent_ns + ANSWER_TIMEOUT_NS)
			for (size_t i = 0; i < l->connections_n; i++)
				connection_close(l, &l->connections[i],
						 "there was no answer in time");
		wake = wake_ns(l, pause);
		now = link_now_ns();
		if (wake > now) {
			timeout.tv_sec = (time_t)((wake - now) / NS_PER_S);
			timeout.tv_nsec = (long)((wake - now) % NS_PER_S);
		}
		int n = epoll_pwait2(l->epoll, events, EVENTS_MAX, wake ? &timeout : NULL, NULL);

		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n; i++)
			event_serve(l, &events[i]);
	}
}

static int load_connect(struct load *l)
{
	l->connections_n = (size_t)(l->o.shared ? l->o.shared : l->o.clients);
	for (size_t i = 0; i < l->connections_n; i++) {
		struct connection *c = &l->connections[i];

		c->link = (struct link){ .options = &l->o.link,
					 .protocol = l->o.link.grpc ? &link_grpc : &link_http,
					 .fd = -1,
					 .answered = exchange_answered,
					 .user = l };
		int r = connection_open(l, c);

		if (r < 0)
			return r;
	}
	for (uint32_t i = 0; i < l->o.clients; i++) {
		l->clients[i] = (struct client){ .link = &l->connections[i % l->connections_n].link,
						 .warm = l->o.warm };
		client_ready(l, i);
	}
	return 0;
}

static int load_open(struct load *l)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &l->signals };
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	l->done = calloc(REQUESTS_MAX, sizeof(*l->done));
	if (!l->done)
		return -ENOMEM;
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	l->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (l->epoll < 0 || l->signals < 0 ||
	    epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->signals, &event) < 0)
		return -errno;
	return load_connect(l);
}

static void load_close(struct load *l)
{
	/* Not all of them were made where one could not be opened. */
	for (size_t i = 0; i < l->connections_n; i++)
		if (l->connections[i].link.protocol)
			link_close(&l->connections[i].link, "it was broken off");
	for (size_t i = 0; i < l->done_n; i++)
		free(l->done[i]);
	free(l->done);
	safe_close(l->epoll);
	safe_close(l->signals);
}

static int log_write(const struct load *l, const char *path)
{
	FILE *out = fopen(path, "we");

	if (!out)
		return -errno;
	for (size_t i = 0; i < l->done_n; i++) {
		const struct exchange *e = l->done[i];

		fprintf(out,
			"{\"id\": %" PRIu64
			", \"local_port\": %u, \"stream\": %u, \"send_ns\": %" PRIu64
			", \"arrive_ns\": %" PRIu64 ", \"receive_ns\": %" PRIu64
			", \"status\": %d, \"model\": \"%s\"",
			e->id, e->local_port, e->stream, e->send_ns, e->arrive_ns, e->receive_ns,
			e->status, l->o.link.model);
		if (e->grpc_status >= 0)
			fprintf(out, ", \"grpc_status\": %d", e->grpc_status);
		if (e->batched)
			fprintf(out, ", \"batch\": [%.9g, %.9g]", (double)e->batch[0],
				(double)e->batch[1]);
		if (e->slow)
			fputs(", \"slow\": true", out);
		if (e->error)
			fprintf(out, ", \"error\": \"%s\"", e->error);
		fputs("}\n", out);
	}
	bool failed = ferror(out);

	return fclose(out) || failed ? -EIO : 0;
}

static int latency_compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

static double percentile_ms(const uint64_t *sorted, size_t n, double p)
{
	return n ? (double)sorted[MIN(n - 1, (size_t)((double)n * p))] / 1e6 : 0;
}

/* Returns how many requests were answered right, or -ENOMEM. */
static long result_print(const struct load *l)
{
	_cleanup_free_ uint64_t *latencies = calloc(l->done_n + 1, sizeof(*latencies));
	double seconds = l->start_ns ? (double)(link_now_ns() - l->start_ns) / 1e9 : 0;
	size_t n = 0;

	if (!latencies)
		return -ENOMEM;
	for (size_t i = 0; i < l->done_n; i++)
		if (!l->done[i]->error)
			latencies[n++] = l->done[i]->receive_ns - l->done[i]->send_ns;
	qsort(latencies, n, sizeof(*latencies), latency_compare);
	printf("{\"model\": \"%s\", \"clients\": %ld, \"requests\": %zu, \"errors\": %zu, \"seconds\": %.3f, "
	       "\"requests_per_s\": %.1f, \"p50_ms\": %.3f, \"p99_ms\": %.3f",
	       l->o.link.model, l->o.clients, n, l->errors, seconds,
	       seconds > 0 ? (double)n / seconds : 0, percentile_ms(latencies, n, 0.5),
	       percentile_ms(latencies, n, 0.99));
	if (l->first_error)
		printf(", \"first_error\": \"%s\"", l->first_error);
	puts("}");
	return (long)n;
}

int main(int argc, char **argv)
{
	struct load *l = calloc(1, sizeof(*l));
	long right = 0;
	int r;

	if (!l)
		return 1;
	l->o = (struct options){ .link = { .model = "half_plus_two", .rows = 1 },
				 .clients = 1,
				 .pipeline = 1,
				 .id_base = 1 };
	argp_parse(&argp, argc, argv, 0, NULL, &l->o);
	r = load_open(l);
	if (r >= 0)
		r = load_run(l);
	if (r >= 0)
		right = result_print(l);
	if (r >= 0 && l->o.log)
		r = log_write(l, l->o.log);
	if (r < 0)
		fprintf(stderr, "load_client: %s: %s\n", l->o.link.host, strerror(-r));
	bool good = r >= 0 && right > 0 && !l->errors;

	load_close(l);
	free(l);
	return good ? 0 : 1;
}
