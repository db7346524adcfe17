/* SPDX-License-Identifier: Apache-2.0 */
/* Header fields of a client's calls, as the daemon's gRPC server reads them: each block of the
 * input in a frame of its own, so that what the fuzzer changes are fields. */
#include "lib/grpc/call.h"
#include "lib/grpc/session.h"
#include "tests/fuzz/drain.h"
#include "tests/fuzz/fuzz.h"

#define GREETING "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
#define HEADERS 1
#define FRAME_HEAD 9
#define BLOCK_MAX 16384
/* The limit of fields that are looked at, and the largest field. */
#define HEADER_BYTES_MAX ((64 << 10) + (64 << 10))

static uint64_t clock_ns(void)
{
	return 1;
}

static void on_call(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	grpc_call_finish(call, GRPC_OK, NULL);
}

static void on_wake(void *owner)
{
}

static int send_block(struct grpc_session *session, uint8_t flags, uint32_t stream,
		      const uint8_t *block, size_t size)
{
	uint8_t frame[FRAME_HEAD + BLOCK_MAX] = {
		0, (uint8_t)(size >> 8), (uint8_t)size, HEADERS, (uint8_t)(4 | (flags & 1)), 0, 0,
		0, (uint8_t)stream
	};

	memcpy(frame + FRAME_HEAD, block, size);
	return grpc_session_receive(session, frame, FRAME_HEAD + size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct grpc_method methods[] = { { "/a", on_call }, { "/b", on_call, true } };
	const struct grpc_server_options options = { .methods = methods,
						     .n_methods = ARRAY_SIZE(methods) };
	struct fuzz_input in = { .data = data, .size = size };
	struct grpc_service service = {};
	struct grpc_session session = {};
	uint32_t stream = 1;
	int r;

	if (grpc_service_init(&service, &options, clock_ns) < 0)
		return 0;
	r = grpc_session_init(&session, &service, on_wake, NULL);
	if (r >= 0)
		r = grpc_session_receive(&session, (const uint8_t *)GREETING, sizeof(GREETING) - 1);
	while (r >= 0 && in.size && stream < 256) {
		uint8_t flags = (uint8_t)fuzz_take(&in, 1);
		size_t n = MIN((size_t)fuzz_take(&in, 2), (size_t)BLOCK_MAX - 1);

		n = MIN(n, in.size);
		r = send_block(&session, flags, stream, in.data, n);
		for (struct grpc_call *call = session.calls; call; call = call->next)
			if (call->header_bytes > HEADER_BYTES_MAX)
				abort();
		/* Otherwise the next block is that of the trailers. */
		stream += flags & 3 ? 2 : 0;
		in.data += n;
		in.size -= n;
		if (r >= 0)
			r = drain(&session);
	}
	grpc_session_clear(&session);
	grpc_service_clear(&service);
	return 0;
}
