/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 of the load client. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/macro.h"
#include "tests/servers/load_link.h"
#include "tests/servers/predict_json.h"

#define HEAD_MAX 16384
#define ANSWER_MAX (128 << 20)

static int http_open(struct link *l)
{
	return 0;
}

static void http_close(struct link *l)
{
}

/* Appends {"instances": …}. */
static int body_write(const struct link *l, const struct exchange *e, struct buffer *body)
{
	struct tensor t;
	char number[32];

	if (link_tensor(l, e, &t) < 0)
		return -ENOMEM;
	buffer_append(body, "{\"instances\": [", 15);
	for (int64_t i = 0, row = 0; row < t.dims[0]; row++) {
		buffer_append(body, ", [", row ? (t.dims_n == 2 ? 3 : 2) : 0);
		if (!row && t.dims_n == 2)
			buffer_append(body, "[", 1);
		for (int64_t column = 0; column < t.dims[1]; column++, i++)
			buffer_append(body, number,
				      (size_t)snprintf(number, sizeof(number),
						       column ? ", %.9g" : "%.9g",
						       (double)t.values[i]));
		if (t.dims_n == 2)
			buffer_append(body, "]", 1);
	}
	free(t.values);
	return buffer_append(body, "]}", 2);
}

static int chunk_write(struct buffer *b, const uint8_t *bytes, size_t size)
{
	char line[32];

	buffer_append(b, line, (size_t)snprintf(line, sizeof(line), "%zx\r\n", size));
	buffer_append(b, bytes, size);
	return buffer_append(b, "\r\n", 2);
}

/* The head, two chunks and the end of them go out one by one. */
static int body_send_chunked(struct link *l, const struct buffer *body)
{
	size_t half = body->used / 2;
	int r = link_flush(l);

	if (r >= 0)
		r = chunk_write(&l->output, body->bytes, half);
	if (r >= 0)
		r = link_flush(l);
	if (r >= 0)
		r = chunk_write(&l->output, body->bytes + half, body->used - half);
	return r < 0 ? r : buffer_append(&l->output, "0\r\n\r\n", 5);
}

static int http_request(struct link *l, struct exchange *e)
{
	const struct link_options *o = l->options;
	struct buffer body = { 0 };
	char head[512], length[64];
	int size, r;

	r = body_write(l, e, &body);
	if (r < 0)
		goto finish;
	if (o->chunked)
		snprintf(length, sizeof(length), "Transfer-Encoding: chunked");
	else
		snprintf(length, sizeof(length), "Content-Length: %zu", body.used);
	size = snprintf(head, sizeof(head),
			"POST /v1/models/%s:predict HTTP/1.1\r\nHost: %s\r\nx-request-id: %" PRIu64
			"\r\nContent-Type: application/json\r\n%s\r\n\r\n",
			o->model, o->host, e->id, length);
	r = size < (int)sizeof(head) ? buffer_append(&l->output, head, (size_t)size) : -E2BIG;
	if (r >= 0)
		r = o->chunked ? body_send_chunked(l, &body)
			       : buffer_append(&l->output, body.bytes, body.used);
finish:
	buffer_clear(&body);
	return r;
}

/* What of an answer's head matters here. */
struct head {
	size_t size;
	int status;
	size_t length;
	bool has_length, close;
};

/* 1, 0 when it is not whole, -EPROTO. */
static int head_read(const struct buffer *b, struct head *ret)
{
	const char *bytes = (const char *)b->bytes, *end, *line;
	struct head h = { 0 };
	char first[64] = "";
	int minor;

	end = bytes ? memmem(bytes, MIN(b->used, (size_t)HEAD_MAX), "\r\n\r\n", 4) : NULL;
	if (!end)
		return b->used >= HEAD_MAX ? -EPROTO : 0;
	h.size = (size_t)(end - bytes) + 4;

	memcpy(first, bytes, MIN(h.size, sizeof(first) - 1));
	if (sscanf(first, "HTTP/1.%d %d", &minor, &h.status) != 2)
		return -EPROTO;
	h.close = !minor;
	/* Each line has its line feed, which ends comparisons and numbers. */
	for (line = bytes; line < end;
	     line = (const char *)memchr(line, '\n', (size_t)(end + 2 - line)) + 1) {
		if (!strncasecmp(line, "Content-Length:", 15)) {
			h.length = strtoull(line + 15, NULL, 10);
			h.has_length = true;
		} else if (!strncasecmp(line, "Connection: close", 17)) {
			h.close = true;
		} else if (!strncasecmp(line, "Transfer-Encoding:", 18)) {
			return -EPROTO;
		}
	}
	if (h.length > ANSWER_MAX || (!h.has_length && !h.close))
		return -EPROTO;
	*ret = h;
	return 1;
}

/* Passes on the first answer of the input, whose body has so many bytes. */
static void answer_take(struct link *l, const struct head *h, size_t size)
{
	struct exchange *e = l->outstanding;
	struct tensor t = { 0 };
	const char *reason;
	/* As a string; what is white space at its end may be long. */
	_cleanup_free_ char *body = strndup((const char *)l->input.bytes + h->size, size);
	int r = body ? predict_json_decode(body, "predictions", &reason, &t) : -ENOMEM;

	buffer_consume(&l->input, h->size + size);
	if (h->close)
		l->close = true;
	e->status = h->status;
	link_answered(l, e, r < 0 ? NULL : &t);
	free(t.values);
}

static int http_receive(struct link *l, const uint8_t *bytes, size_t size)
{
	struct head h;

	if (buffer_append(&l->input, bytes, size) < 0)
		return -ENOMEM;
	while (l->outstanding) {
		int r = head_read(&l->input, &h);

		if (r <= 0)
			return r;
		if (!h.has_length || l->input.used - h.size < h.length)
			return l->input.used > h.size + ANSWER_MAX ? -EPROTO : 0;
		answer_take(l, &h, h.length);
	}
	return l->input.used ? -EPROTO : 0;
}

/* An answer without a length ends here. */
static void http_ended(struct link *l)
{
	struct head h;

	if (l->outstanding && head_read(&l->input, &h) > 0 && !h.has_length)
		answer_take(l, &h, l->input.used - h.size);
}

const struct link_protocol link_http = { http_open, http_close, http_request, http_receive,
					 http_ended };
