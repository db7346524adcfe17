/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of a client, through the front's services: a path, a NUL, and the message. The broker
 * is played by a thread for each line, which accepts the client and refuses whatever else it is
 * asked for.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "daemon/broker/channel.h"
#include "daemon/broker/message.h"
#include "daemon/rpc/service.h"
#include "lib/base/log.h"
#include "tests/fuzz/fuzz.h"

#define ANSWER_NS 50000000ull
#define PATH_MAX_BYTES 100
#define MESSAGE_MAX 16000
#define FRAME_HEAD 9

static struct loop *loop;
static struct listener listener = { .kind = LISTENER_CLEAR };
static struct sockaddr_un address = { .sun_family = AF_UNIX };
static socklen_t address_size;
static uint8_t request[MESSAGE_MAX + 1024];

static void *play_broker(void *data)
{
	int socket = *(int *)data;
	struct broker_message m;
	unsigned n;

	while (channel_receive(socket, &m, sizeof(m), NULL, 0, &n) >= 0) {
		int connection = -1;

		m.text[0] = 0;
		m.result = -EACCES;
		if (m.type == BROKER_ACCEPT) {
			connection = accept4(listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
			m.result = connection < 0 ? -errno : 0;
			m.peer = (struct authority_peer){ .uid = 1000, .holder = 1000 };
		}
		channel_send(socket, &m, sizeof(m), &connection, connection >= 0);
		safe_close(connection);
	}
	return NULL;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static struct config *config;
	static int pairs[BROKER_LINES][2];
	int lines[BROKER_LINES];
	struct service_options options = { .hostname = "host",
					   .listeners = &listener,
					   .n_listeners = 1,
					   .metrics = -1,
					   .cache = -1,
					   .ports = service_ports_new() };
	char *flags[] = { "tfprofd", NULL }, reason[600];
	struct service *service;
	pthread_t thread;

	signal(SIGPIPE, SIG_IGN);
	log_set_level(LOG_ERR);
	listener.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	address_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				   snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
					    "tfprofd-fuzz-%d", getpid()));
	for (unsigned i = 0; i < BROKER_LINES; i++) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pairs[i]) < 0 ||
		    pthread_create(&thread, NULL, play_broker, &pairs[i][0]) != 0)
			abort();
		lines[i] = pairs[i][1];
	}
	if (bind(listener.fd, (struct sockaddr *)&address, address_size) < 0 ||
	    listen(listener.fd, 8) < 0 || config_new(1, flags, &config, reason, 600) < 0 ||
	    loop_new(&loop) < 0 || proxy_new(lines, &options.proxy) < 0)
		abort();
	options.loop = loop;
	options.config = config;
	if (service_new(&options, &service) < 0 || service_listen(service, 0) < 0)
		abort();
	return 0;
}

static uint8_t *put(uint8_t *to, const void *bytes, size_t size)
{
	memcpy(to, bytes, size);
	return to + size;
}

static uint8_t *put_field(uint8_t *to, const char *name, const char *value, size_t size)
{
	*to++ = 0;
	*to++ = (uint8_t)strlen(name);
	to = put(to, name, strlen(name));
	*to++ = (uint8_t)size;
	return put(to, value, size);
}

static uint8_t *put_frame(uint8_t *to, uint8_t type, uint8_t flags, uint8_t stream, size_t size)
{
	const uint8_t head[] = { (uint8_t)(size >> 16),
				 (uint8_t)(size >> 8),
				 (uint8_t)size,
				 type,
				 flags,
				 0,
				 0,
				 0,
				 stream };

	return put(to, head, sizeof(head));
}

/* The bytes of a connection with one call. */
static size_t make_request(const char *path, size_t path_size, const uint8_t *message, size_t size)
{
	const uint8_t prefix[] = { 0, 0, (uint8_t)(size >> 16), (uint8_t)(size >> 8),
				   (uint8_t)size };
	uint8_t fields[512], *end = fields, *to = request;

	end = put_field(end, ":method", "POST", 4);
	end = put_field(end, ":scheme", "http", 4);
	end = put_field(end, ":path", path, path_size);
	end = put_field(end, ":authority", "a", 1);
	end = put_field(end, "te", "trailers", 8);
	end = put_field(end, "content-type", "application/grpc", 16);
	to = put(to, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
	to = put_frame(to, 4, 0, 0, 0);
	to = put_frame(to, 1, 4, 1, (size_t)(end - fields));
	to = put(to, fields, (size_t)(end - fields));
	to = put_frame(to, 0, 1, 1, size + sizeof(prefix));
	to = put(to, prefix, sizeof(prefix));
	return (size_t)(put(to, message, size) - request);
}

/* Whether a frame ends the stream of the call; frames come whole. */
static bool has_end(const uint8_t *bytes, size_t size)
{
	for (size_t at = 0; at + FRAME_HEAD <= size;
	     at +=
	     FRAME_HEAD + ((size_t)bytes[at] << 16 | (size_t)bytes[at + 1] << 8 | bytes[at + 2])) {
		uint8_t type = bytes[at + 3], flags = bytes[at + 4];

		if (type == 3 || type == 7 || (type <= 1 && flags & 1))
			return true;
	}
	return false;
}

static void on_answer(int fd, uint32_t events, void *data)
{
	uint8_t bytes[65536];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n <= 0 || has_end(bytes, (size_t)n))
		loop_exit(loop, 0);
}

static void on_late(void *data)
{
	loop_exit(loop, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = memchr(data, 0, MIN(size, (size_t)PATH_MAX_BYTES));
	struct loop_source *source = NULL;
	struct loop_timer *timer = NULL;
	size_t message_size, n;
	int client;

	if (!nul)
		return 0;
	message_size = MIN(size - (size_t)(nul - data) - 1, (size_t)MESSAGE_MAX);
	n = make_request((const char *)data, (size_t)(nul - data), nul + 1, message_size);
	client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (client < 0 || connect(client, (struct sockaddr *)&address, address_size) < 0 ||
	    write(client, request, n) != (ssize_t)n ||
	    loop_source_new(loop, client, EPOLLIN, on_answer, NULL, &source) < 0 ||
	    loop_timer_new(loop, on_late, NULL, &timer) < 0)
		abort();
	loop_timer_set(timer, loop_now() + ANSWER_NS);
	loop_run(loop);
	loop_source_free(source);
	loop_timer_free(timer);
	close(client);
	return 0;
}
