/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/connect/session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/connect/private_daemon.h"
#include "cli/interrupt.h"
#include "lib/base/loop.h"
#include "lib/base/macro.h"
#include "lib/base/text_file.h"

#define CONNECT_NS (5 * UINT64_C(1000000000))
#define START_NS (10 * UINT64_C(1000000000))
#define RETRY_NS 20000000
#define PEM_MAX (1 << 20)

struct session {
	struct grpc_tls *tls; /* NULL: in clear */
	struct grpc_client *client;
	struct private_daemon *daemon;
	bool message_failed; /* the stream was ended by the receiver of its messages */
	grpc_message_fn message;
	void *data;
	session_say_fn say; /* NULL: the user is told */
	void *say_data;
};

/* To the user, or to who opens the session. */
__attribute__((format(printf, 2, 3))) static void say(const struct session *session,
						      const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&text, format, ap);
	va_end(ap);
	if (n < 0)
		text = NULL;
	else if (session->say)
		session->say(text, session->say_data);
	else
		outcome_say("%s", text);
}

static void say_line(const char *text, void *data)
{
	say(data, "%s", text);
}

static enum outcome explain_connect(const struct session *session, const char *address, int error,
				    const char *reason)
{
	switch (error) {
	case -EINVAL:
		say(session, "invalid address '%s': use unix:PATH, @NAME or HOST:PORT", address);
		break;
	case -EACCES:
	case -EPERM:
		say(session,
		    "you may not use the daemon at %s: ask for access to its socket, or use sudo",
		    address);
		break;
	case -ENOENT:
	case -ECONNREFUSED:
		say(session,
		    "no daemon listens at %s: start tfprofd; without --daemon, capture, plan, targets, lifecycle and doctor start one themselves",
		    address);
		break;
	case -EHOSTUNREACH:
		say(session, "cannot reach the host of %s: check its name", address);
		break;
	case -EPROTO:
		say(session, "cannot connect to the daemon at %s by TLS: %s", address,
		    reason ? reason : "the handshake failed");
		break;
	default:
		say(session, "cannot connect to the daemon at %s: %s", address, strerror(-error));
	}
	return outcome_of_error(error);
}

static enum outcome explain_interrupt(const struct session *session)
{
	say(session, "canceled: nothing was written");
	return OUTCOME_INTERNAL;
}

/* What the daemon said before its end, when it has ended; its exit code decides when it says that
 * the host cannot. */
static enum outcome explain_private_end(struct session *session, enum outcome otherwise)
{
	int code;

	if (!private_daemon_await_end(session->daemon, &code)) {
		private_daemon_read_errors(session->daemon, say_line, session);
		return otherwise;
	}
	private_daemon_read_errors(session->daemon, say_line, session);
	if (code != OUTCOME_HOST)
		say(session, "the private daemon ended too early, with code %d", code);
	return code == OUTCOME_HOST ? OUTCOME_HOST : otherwise;
}

static enum outcome connect_private(struct session *session)
{
	const struct timespec pause = { .tv_nsec = RETRY_NS };
	const char *address = private_daemon_address(session->daemon);
	uint64_t give_up = loop_now() + START_NS;
	int code, r;

	for (;;) {
		bool ended = private_daemon_ended(session->daemon, &code);

		if (*interrupt_flag())
			return explain_interrupt(session);
		if (ended)
			return explain_private_end(session, OUTCOME_INTERNAL);
		r = grpc_client_connect(address, NULL, CONNECT_NS, &session->client, NULL);
		if (!r)
			return OUTCOME_OK;
		if ((r != -ENOENT && r != -ECONNREFUSED && r != -EAGAIN && r != -EINTR) ||
		    loop_now() > give_up)
			break;
		nanosleep(&pause, NULL);
	}
	say(session, "the private daemon does not answer: %s", strerror(-r));
	private_daemon_read_errors(session->daemon, say_line, session);
	return OUTCOME_INTERNAL;
}

static enum outcome open_private(struct session *session)
{
	int r;

	if (isatty(STDERR_FILENO))
		outcome_say("no daemon is running: starting one for this command");
	r = private_daemon_start(&session->daemon);
	if (!r)
		return connect_private(session);
	if (r == -ENOENT)
		say(session,
		    "no daemon listens at %s, and no tfprofd was found beside tfprofctl, in ../sbin or in PATH",
		    DAEMON_DEFAULT_ADDRESS);
	else
		say(session, "cannot start a private daemon: %s", strerror(-r));
	return OUTCOME_INTERNAL;
}

static enum outcome read_pem(const struct session *session, const char *path, char **ret)
{
	int r = path ? text_file_read(path, PEM_MAX, ret) : 0;

	if (r < 0)
		say(session, "cannot read %s: %s", path, strerror(-r));
	return r < 0 ? OUTCOME_USAGE : OUTCOME_OK;
}

static enum outcome prepare_tls(struct session *session, const struct daemon_address *address)
{
	_cleanup_free_ char *authorities = NULL, *certificate = NULL, *key = NULL;
	enum outcome outcome = read_pem(session, address->authorities, &authorities);
	struct grpc_tls_options options;
	char text[200];

	if (outcome == OUTCOME_OK)
		outcome = read_pem(session, address->certificate, &certificate);
	if (outcome == OUTCOME_OK)
		outcome = read_pem(session, address->key, &key);
	if (outcome != OUTCOME_OK)
		return outcome;
	options = (struct grpc_tls_options){ .certificate = certificate,
					     .key = key,
					     .authorities = authorities };
	if (grpc_tls_client_new(&options, &session->tls, text, sizeof(text)) == 0)
		return OUTCOME_OK;
	say(session, "cannot use TLS: %s", text);
	return OUTCOME_USAGE;
}

static enum outcome connect_session(struct session *session, const struct daemon_address *address)
{
	const char *text = address->text ? address->text : DAEMON_DEFAULT_ADDRESS;
	_cleanup_free_ char *reason = NULL;
	enum outcome outcome = address->tls ? prepare_tls(session, address) : OUTCOME_OK;
	int r;

	if (outcome != OUTCOME_OK)
		return outcome;
	r = grpc_client_connect(text, session->tls, CONNECT_NS, &session->client, &reason);
	if (r == 0)
		return OUTCOME_OK;
	if (*interrupt_flag())
		return explain_interrupt(session);
	if (!address->text && (r == -ENOENT || r == -ECONNREFUSED))
		return open_private(session);
	return explain_connect(session, text, r, reason);
}

enum outcome session_open_saying(const struct daemon_address *address, session_say_fn line,
				 void *data, struct session **ret)
{
	struct session *session = calloc(1, sizeof(*session));
	enum outcome outcome;

	if (!session) {
		outcome_say("out of memory");
		return OUTCOME_INTERNAL;
	}
	session->say = line;
	session->say_data = data;
	outcome = connect_session(session, address);
	if (outcome != OUTCOME_OK) {
		session_free(session);
		return outcome;
	}
	session->say = NULL;
	*ret = session;
	return OUTCOME_OK;
}

enum outcome session_open_running(const struct daemon_address *address, struct session **ret)
{
	struct daemon_address named = *address;

	/* For one that is named no other one is started. */
	if (!named.text)
		named.text = DAEMON_DEFAULT_ADDRESS;
	return session_open(&named, ret);
}

enum outcome session_open(const struct daemon_address *address, struct session **ret)
{
	return session_open_saying(address, NULL, NULL, ret);
}

struct session *session_free(struct session *session)
{
	if (!session)
		return NULL;
	grpc_client_free(session->client);
	grpc_tls_free(session->tls);
	private_daemon_free(session->daemon);
	free(session);
	return NULL;
}

bool session_is_private(const struct session *session)
{
	return session->daemon;
}

/* What a call came to, said to the user unless all is well. */
static enum outcome explain_call(struct session *session, int r, enum grpc_status status,
				 const char *text)
{
	if (*interrupt_flag() && (r == -ECANCELED || r == -EINTR))
		return explain_interrupt(session);
	if (r < 0) {
		outcome_say("the connection to the daemon failed: %s",
			    grpc_client_reason(session->client));
		return session->daemon ? explain_private_end(session, OUTCOME_INTERNAL)
				       : OUTCOME_INTERNAL;
	}
	if (status == GRPC_OK)
		return OUTCOME_OK;
	if (text && *text)
		outcome_say("%s", text);
	else if (status == GRPC_UNIMPLEMENTED)
		outcome_say(
			"the server at this address is not tfprofd, or is another version of it");
	else
		outcome_say("the daemon returned %s", grpc_status_name(status));
	return outcome_of_status(status);
}

enum outcome session_call(struct session *session, const char *path, const void *request,
			  size_t size, uint64_t timeout_ns, uint8_t **ret_message, size_t *ret_size)
{
	const struct grpc_client_options options = { .timeout_ns = timeout_ns,
						     .cancelled = interrupt_flag() };
	_cleanup_free_ char *text = NULL;
	enum grpc_status status = GRPC_UNKNOWN;
	int r;

	r = grpc_client_call(session->client, path, request, size, &options, ret_message, ret_size,
			     &status, &text);
	return explain_call(session, r, status, text);
}

static int on_message(uint8_t *bytes, size_t size, void *data)
{
	struct session *session = data;
	int r = session->message(bytes, size, session->data);

	session->message_failed = r < 0;
	return r;
}

enum outcome session_stream(struct session *session, const char *path, const void *request,
			    size_t size, uint64_t timeout_ns, grpc_message_fn message, void *data)
{
	const struct grpc_client_options options = { .timeout_ns = timeout_ns,
						     .cancelled = interrupt_flag() };
	_cleanup_free_ char *text = NULL;
	enum grpc_status status = GRPC_UNKNOWN;
	int r;

	session->message = message;
	session->data = data;
	session->message_failed = false;
	r = grpc_client_stream(session->client, path, request, size, &options, on_message, session,
			       &status, &text);
	if (session->message_failed)
		return OUTCOME_INTERNAL;
	return explain_call(session, r, status, text);
}
