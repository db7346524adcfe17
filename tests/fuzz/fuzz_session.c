/* SPDX-License-Identifier: Apache-2.0 */
/* What a client sends to the daemon's gRPC server, before anything is known of the client. */
#include "lib/grpc/call.h"
#include "lib/grpc/session.h"
#include "tests/fuzz/drain.h"
#include "tests/fuzz/fuzz.h"

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define SETTINGS "\0\0\0\4\0\0\0\0\0"

static uint64_t now_ns;

static uint64_t clock_ns(void)
{
	return now_ns;
}

static void on_echo(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	struct grpc_body *body = NULL;

	if (!message) {
		grpc_call_finish(call, GRPC_OK, NULL);
		return;
	}
	if (grpc_body_new(&body) < 0 || grpc_body_add_copy(body, message, size) < 0)
		abort();
	grpc_call_reply(call, body);
}

static void on_fail(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	grpc_call_fail(call, GRPC_INTERNAL, "%.*s", (int)MIN(size, 2000u), (const char *)message);
}

static void on_wake(void *owner)
{
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct grpc_method methods[] = { { "/a", on_echo }, { "/b", on_fail } };
	struct grpc_server_options options = { .methods = methods,
					       .n_methods = ARRAY_SIZE(methods),
					       .max_message = 1 << 16,
					       .max_buffered = 1 << 18 };
	struct fuzz_input in = { .data = data, .size = size };
	uint8_t flags = (uint8_t)fuzz_take(&in, 1);
	struct grpc_service service = {};
	struct grpc_session session = {};
	int r = 0;

	now_ns = 1;
	if (grpc_service_init(&service, &options, clock_ns) < 0)
		return 0;
	if (grpc_session_init(&session, &service, on_wake, NULL) < 0)
		goto end;
	if (!(flags & 1)) {
		r = grpc_session_receive(&session, (const uint8_t *)PREFACE, sizeof(PREFACE) - 1);
		if (r >= 0)
			r = grpc_session_receive(&session, (const uint8_t *)SETTINGS,
						 sizeof(SETTINGS) - 1);
	}
	while (r >= 0 && in.size) {
		size_t n = flags & 2 ? in.size : 1 + fuzz_take(&in, 1);

		n = MIN(n, in.size);
		r = grpc_session_receive(&session, in.data, n);
		in.data += n;
		in.size -= n;
		if (r >= 0)
			r = drain(&session);
		now_ns += flags & 4 ? 1000000000ull : 1000;
		if (r >= 0 && grpc_session_due(&session) <= now_ns)
			r = grpc_session_tick(&session);
	}
	grpc_session_clear(&session);
end:
	grpc_service_clear(&service);
	return 0;
}
