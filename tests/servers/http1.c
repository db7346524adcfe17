/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/servers/http1.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/base/macro.h"

#define HEAD_MAX 8192
#define BODY_MAX (1 << 20)
/* Of a chunked body, with the sizes of its chunks. */
#define CHUNKED_MAX (2 * BODY_MAX)
#define CHUNK_LINE_MAX 64

/* What the head states about the body. */
struct framing {
	size_t length;
	bool chunked;
};

const char *http1_status_text(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 413:
		return "Payload Too Large";
	case 431:
		return "Request Header Fields Too Large";
	case 500:
		return "Internal Server Error";
	case 501:
		return "Not Implemented";
	default:
		return "Bad Request";
	}
}

int http1_answer(struct buffer *b, int status, const char *body, size_t pad, bool close)
{
	char head[256];
	size_t size = strlen(body);
	int n = snprintf(
		head, sizeof(head),
		"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%s\r\n",
		status, http1_status_text(status), size + pad,
		close ? "Connection: close\r\n" : "");

	buffer_append(b, head, (size_t)n);
	buffer_append(b, body, size);
	if (buffer_reserve(b, pad) < 0)
		return -ENOMEM;
	if (pad)
		memset(b->bytes + b->used, ' ', pad);
	b->used += pad;
	return 0;
}

static void header_line_read(struct http1_request *q, const char *line, struct framing *f)
{
	const char *value = strchr(line, ':');

	if (!value)
		return;
	value += 1 + strspn(value + 1, " \t");
	if (!strncasecmp(line, "Content-Length:", 15)) {
		char *end;
		unsigned long size = strtoul(value, &end, 10);

		if (*value < '0' || *value > '9' || *end)
			q->status = 400;
		else if (size > BODY_MAX)
			q->status = 413;
		else
			f->length = size;
	} else if (!strncasecmp(line, "Transfer-Encoding:", 18)) {
		if (strcasecmp(value, "chunked"))
			q->status = 501;
		f->chunked = true;
	} else if (!strncasecmp(line, "Connection:", 11)) {
		if (!strcasecmp(value, "close"))
			q->close = true;
	} else if (!strncasecmp(line, "x-request-id:", 13)) {
		q->id = strtoull(value, NULL, 10);
	}
}

/* Reads the head in place: its lines become strings. An error is stored in q->status. */
static void head_read(struct http1_request *q, size_t size, struct framing *f)
{
	char *line = q->head, *end = line + size - 2, *save = NULL;

	*end = 0;
	for (bool first = true; line < end; first = false) {
		char *next = strstr(line, "\r\n");

		if (!next)
			break;
		*next = 0;
		if (first) {
			q->method = strtok_r(line, " ", &save);
			q->path = strtok_r(NULL, " ", &save);
			const char *version = strtok_r(NULL, " ", &save);

			if (!q->method || !q->path || !version || strncmp(version, "HTTP/1.", 7)) {
				q->status = 400;
				return;
			}
			q->close = !strcmp(version, "HTTP/1.0");
		} else {
			header_line_read(q, line, f);
		}
		line = next + 2;
	}
	if (!q->path)
		q->status = 400;
}

/* A line that ends in CR LF: 1 and where the next one begins, 0 when it is not whole, -EINVAL. */
static int line_end(const uint8_t *at, const uint8_t *end, const uint8_t **ret)
{
	const uint8_t *cr = memchr(at, '\r', (size_t)(end - at));

	if (!cr || cr + 1 == end)
		return end - at > CHUNK_LINE_MAX ? -EINVAL : 0;
	if (cr[1] != '\n' || cr - at > CHUNK_LINE_MAX)
		return -EINVAL;
	*ret = cr + 2;
	return 1;
}

/*
 * Puts the chunks together; trailer lines are skipped. Returns 1 and how many bytes they take up, 0
 * when they are not all there, -EINVAL, -E2BIG or -ENOMEM.
 */
static int chunks_read(const uint8_t *bytes, size_t used, struct buffer *body, size_t *ret)
{
	const uint8_t *at = bytes, *end = bytes + used, *next;
	int r;

	if (used > CHUNKED_MAX)
		return -E2BIG;
	for (;;) {
		r = line_end(at, end, &next);
		if (r <= 0)
			return r;
		if (!isxdigit(*at))
			return -EINVAL;
		unsigned long size = strtoul((const char *)at, NULL, 16);

		if (size > BODY_MAX - body->used)
			return -E2BIG;
		at = next;
		if (!size)
			break;
		if ((size_t)(end - at) < size + 2)
			return 0;
		if (at[size] != '\r' || at[size + 1] != '\n')
			return -EINVAL;
		if (buffer_append(body, at, size) < 0)
			return -ENOMEM;
		at += size + 2;
	}
	do {
		const uint8_t *line = at;

		r = line_end(line, end, &at);
		if (r <= 0)
			return r;
		if (at == line + 2) {
			*ret = (size_t)(at - bytes);
			return 1;
		}
	} while (true);
}

/* Reads the body after a head of so many bytes; returns as http1_request_read(). */
static int body_read(const uint8_t *bytes, size_t used, size_t head, const struct framing *f,
		     struct http1_request *q)
{
	struct buffer body = { 0 };
	size_t size = f->length;
	int r;

	if (!f->chunked) {
		if (used - head < size)
			return 0;
		r = buffer_append(&body, bytes + head, size);
	} else {
		r = chunks_read(bytes + head, used - head, &body, &size);
		if (r == -EINVAL || r == -E2BIG) {
			q->status = r == -EINVAL ? 400 : 413;
			buffer_clear(&body);
			return 1;
		}
		if (r == 0) {
			buffer_clear(&body);
			return 0;
		}
	}
	if (r >= 0)
		r = buffer_append(&body, "", 1);
	if (r < 0) {
		buffer_clear(&body);
		return -ENOMEM;
	}
	q->size = head + size;
	q->body = (char *)body.bytes;
	q->body_size = body.used - 1;
	return 1;
}

int http1_request_read(const uint8_t *bytes, size_t used, struct http1_request *ret)
{
	const uint8_t *end =
		used ? memmem(bytes, MIN(used, (size_t)HEAD_MAX), "\r\n\r\n", 4) : NULL;
	struct http1_request q = { 0 };
	struct framing f = { 0 };
	int r = 1;

	if (!end) {
		*ret = (struct http1_request){ .status = 431, .close = true };
		return used >= HEAD_MAX;
	}
	size_t head = (size_t)(end - bytes) + 4;

	q.head = malloc(head);
	if (!q.head)
		return -ENOMEM;
	memcpy(q.head, bytes, head);
	head_read(&q, head, &f);
	if (!q.status)
		r = body_read(bytes, used, head, &f, &q);
	if (r <= 0) {
		http1_request_clear(&q);
		return r;
	}
	if (q.status)
		q.close = true;
	*ret = q;
	return 1;
}

void http1_request_clear(struct http1_request *q)
{
	free(q->head);
	free(q->body);
	*q = (struct http1_request){ 0 };
}
