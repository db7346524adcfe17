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
	struct grpc_tls *tls; /* NULL: unencrypted */
	struct grpc_client *client;
	struct private_daemon *daemon;
	bool message_failed; /* the receiver of the messages ended the stream */
	grpc_message_fn message;
	void *data;
	session_report_fn report; /* NULL: to the user */
	void *report_data;
};

/* To the user, or to the function that session_open_reporting() was given. */
__attribute__((format(printf, 2, 3))) static void report(const struct session *session,
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
	else if (session->report)
		session->report(text, session->report_data);
	else
		outcome_report("%s", text);
}

static void report_line(const char *text, void *data)
{
	report(data, "%s", text);
}

static enum outcome explain_connect(const struct session *session, const char *address, int error,
				    const char *reason)
{
	switch (error) {
	case -EINVAL:
		report(session, "invalid address '%s': use unix:PATH, @NAME or HOST:PORT", address);
		break;
	case -EACCES:
	case -EPERM:
		report(session,
		       "you may not use the daemon at %s: ask for access to its socket, or use sudo",
		       address);
		break;
	case -ENOENT:
	case -ECONNREFUSED:
		report(session,
		       "no daemon listens at %s: start tfprofd; without --daemon, the commands capture, plan, targets, lifecycle and doctor start one themselves",
		       address);
		break;
	case -EHOSTUNREACH:
		report(session, "cannot find the host of %s: check its name", address);
		break;
	case -EPROTO:
		report(session, "cannot connect to the daemon at %s by TLS: %s", address,
		       reason ? reason : "the handshake failed");
		break;
	default:
		report(session, "cannot connect to the daemon at %s: %s", address,
		       strerror(-error));
	}
	return outcome_of_error(error);
}

static enum outcome explain_interrupt(const struct session *session)
{
	report(session, "canceled: nothing was written");
	return OUTCOME_INTERNAL;
}

/* Reports what the daemon logged. If it ended because this host cannot capture, that is the
 * outcome. */
static enum outcome explain_private_end(struct session *session, enum outcome otherwise)
{
	int code;

	if (!private_daemon_await_end(session->daemon, &code)) {
		private_daemon_read_errors(session->daemon, report_line, session);
		return otherwise;
	}
	private_daemon_read_errors(session->daemon, report_line, session);
	if (code != OUTCOME_HOST)
		report(session, "the private daemon exited early with code %d", code);
	return code == OUTCOME_HOST ? OUTCOME_HOST : otherwise;
}

static enum outcome connect_private(struct session *session)
{
	const struct timespec pause = { .tv_nsec = RETRY_NS };
	const char *address = private_daemon_address(session->daemon);
	uint64_t deadline = loop_now() + START_NS;
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
		    loop_now() > deadline)
			break;
		nanosleep(&pause, NULL);
	}
	report(session, "the private daemon does not respond: %s", strerror(-r));
	private_daemon_read_errors(session->daemon, report_line, session);
	return OUTCOME_INTERNAL;
}

static enum outcome open_private(struct session *session)
{
	int r;

	if (isatty(STDERR_FILENO))
		outcome_report("no daemon is running: starting one for this command");
	r = private_daemon_start(&session->daemon);
	if (!r)
		return connect_private(session);
	if (r == -ENOENT)
		report(session,
		       "no daemon listens at %s, and no tfprofd was found beside tfprofctl, in ../sbin or in PATH",
		       DAEMON_DEFAULT_ADDRESS);
	else
		report(session, "cannot start a private daemon: %s", strerror(-r));
	return OUTCOME_INTERNAL;
}

static enum outcome read_pem(const struct session *session, const char *path, char **ret)
{
	int r = path ? text_file_read(path, PEM_MAX, ret) : 0;

	if (r < 0)
		report(session, "cannot read %s: %s", path, strerror(-r));
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
	report(session, "cannot use TLS: %s", text);
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

enum outcome session_open_reporting(const struct daemon_address *address, session_report_fn line,
				    void *data, struct session **ret)
{
	struct session *session = calloc(1, sizeof(*session));
	enum outcome outcome;

	if (!session) {
		outcome_report("out of memory");
		return OUTCOME_INTERNAL;
	}
	session->report = line;
	session->report_data = data;
	outcome = connect_session(session, address);
	if (outcome != OUTCOME_OK) {
		session_free(session);
		return outcome;
	}
	session->report = NULL;
	*ret = session;
	return OUTCOME_OK;
}

enum outcome session_open_running(const struct daemon_address *address, struct session **ret)
{
	struct daemon_address named = *address;

	/* No private daemon is started for an address that was given. */
	if (!named.text)
		named.text = DAEMON_DEFAULT_ADDRESS;
	return session_open(&named, ret);
}

enum outcome session_open(const struct daemon_address *address, struct session **ret)
{
	return session_open_reporting(address, NULL, NULL, ret);
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

/* The outcome of a call; failures are explained to the user. */
static enum outcome explain_call(struct session *session, int r, enum grpc_status status,
				 const char *text)
{
	if (*interrupt_flag() && (r == -ECANCELED || r == -EINTR))
		return explain_interrupt(session);
	if (r < 0) {
		outcome_report("the connection to the daemon failed: %s",
			       grpc_client_reason(session->client));
		return session->daemon ? explain_private_end(session, OUTCOME_INTERNAL)
				       : OUTCOME_INTERNAL;
	}
	if (status == GRPC_OK)
		return OUTCOME_OK;
	if (text && *text)
		outcome_report("%s", text);
	else if (status == GRPC_UNIMPLEMENTED)
		outcome_report(
			"the server at this address is not tfprofd, or a different version of it");
	else
		outcome_report("the daemon returned %s", grpc_status_name(status));
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

enum outcome session_ask_running(const struct daemon_address *address, const char *path,
				 uint64_t timeout_ns, uint8_t **ret_message, size_t *ret_size)
{
	struct session *session = NULL;
	enum outcome outcome = session_open_running(address, &session);

	if (session)
		outcome = session_call(session, path, "", 0, timeout_ns, ret_message, ret_size);
	session_free(session);
	return outcome;
}
