/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/grpc/http2.h"

#include <errno.h>

#include "lib/base/macro.h"

#define FRAME_SIZE_MAX 262144
#define FRAME_HEADER_SIZE 9

static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *header,
			size_t length, nghttp2_data_source *source, void *user_data)
{
	struct grpc_http2 *http2 = user_data;

	if (grpc_output_add(&http2->output, header, FRAME_HEADER_SIZE) < 0 ||
	    grpc_output_take(&http2->output, source->ptr, length) < 0) {
		http2->failed = true;
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (!grpc_output_full(&http2->output))
		return 0;
	http2->paused = true;
	return NGHTTP2_ERR_PAUSE;
}

static ssize_t frame_size(nghttp2_session *session, uint8_t type, int32_t stream_id,
			  int32_t session_window, int32_t stream_window, uint32_t frame_size_max,
			  void *user_data)
{
	int32_t size = (int32_t)MIN(frame_size_max, (uint32_t)FRAME_SIZE_MAX);

	size = MIN(size, MIN(session_window, stream_window));
	return MAX(size, 1);
}

void grpc_http2_setup(nghttp2_session_callbacks *callbacks)
{
	nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
	nghttp2_session_callbacks_set_data_source_read_length_callback(callbacks, frame_size);
}

void grpc_http2_clear(struct grpc_http2 *http2)
{
	nghttp2_session_del(http2->session);
	http2->session = NULL;
	grpc_output_clear(&http2->output);
}

int grpc_http2_receive(struct grpc_http2 *http2, const uint8_t *bytes, size_t size)
{
	if (nghttp2_session_mem_recv(http2->session, bytes, size) < 0)
		http2->failed = true;
	return http2->failed ? -EPROTO : 0;
}

int grpc_http2_fill(struct grpc_http2 *http2)
{
	http2->paused = false;
	while (!grpc_output_full(&http2->output) && !http2->paused && !http2->silent) {
		const uint8_t *bytes;
		ssize_t n = nghttp2_session_mem_send(http2->session, &bytes);

		if (n < 0 || http2->failed) {
			http2->failed = true;
			return -EPROTO;
		}
		if (n == 0)
			break;
		if (grpc_output_add(&http2->output, bytes, (size_t)n) < 0) {
			http2->failed = true;
			return -ENOMEM;
		}
	}
	return 0;
}
