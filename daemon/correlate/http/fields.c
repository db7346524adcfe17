/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/http/fields.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/correlator.h"
#include "lib/base/macro.h"

/* A field that a connection's table holds. */
struct known_field {
	uint32_t number;
	uint8_t name; /* enum record_field_name */
	bool set;
	uint32_t text; /* index into texts */
};

/* The fields of one direction. */
struct fields {
	struct known_field known[HTTP2_FIELDS_KEPT]; /* the latest, by their number */
	/* Literals of the block that is coming. */
	uint32_t stream, pending[FIELD_REQUEST_LINE + 1]; /* TEXT_NONE */
};

static struct fields *fields_get(struct correlator *c, struct connection *conn, uint8_t direction)
{
	struct fields *f = conn->fields.directions;

	if (!f) {
		f = conn->fields.directions = calloc(2, sizeof(*f));
		if (!f) {
			c->error = -ENOMEM;
			return NULL;
		}
		for (unsigned i = 0; i < 2; i++)
			for (unsigned k = 0; k <= FIELD_REQUEST_LINE; k++)
				f[i].pending[k] = TEXT_NONE;
	}
	return &f[direction & 1];
}

/* Decodes a text in HPACK's Huffman code, as a field that is not in a table. */
static uint32_t text_of_huffman(struct correlator *c, const uint8_t *bytes, size_t size)
{
	uint8_t block[RECORD_FIELD_SIZE + 4];
	nghttp2_hd_inflater *inflater;
	uint32_t text = TEXT_NONE;
	nghttp2_nv field;
	int flags = 0;
	size_t n = 0;

	block[n++] = 0x04; /* a literal :path, not put into the table */
	if (size < 0x7f) {
		block[n++] = (uint8_t)(0x80 | size);
	} else {
		block[n++] = 0xff;
		/* At most RECORD_FIELD_SIZE: one more byte holds the rest, or two. */
		if (size - 0x7f >= 0x80)
			return TEXT_NONE;
		block[n++] = (uint8_t)(size - 0x7f);
	}
	memcpy(block + n, bytes, size);
	n += size;
	if (nghttp2_hd_inflate_new(&inflater) != 0) {
		c->error = -ENOMEM;
		return TEXT_NONE;
	}
	if (nghttp2_hd_inflate_hd2(inflater, &field, &flags, block, n, 1) >= 0 &&
	    flags & NGHTTP2_HD_INFLATE_EMIT)
		text = texts_add(c, (const char *)field.value, field.valuelen);
	nghttp2_hd_inflate_del(inflater);
	return text;
}

static uint32_t text_of_field(struct correlator *c, const struct record_field *r)
{
	/* A truncated text may end within a code: then none of it is known. */
	if (r->size > RECORD_FIELD_SIZE && (r->huffman || r->name != FIELD_REQUEST_LINE))
		return texts_add(c, "(too long)", strlen("(too long)"));
	if (r->huffman)
		return text_of_huffman(c, (const uint8_t *)r->text, r->size);
	return texts_add(c, r->text, MIN(r->size, RECORD_FIELD_SIZE));
}

void fields_on_field(struct correlator *c, uint32_t connection, const struct record_field *r)
{
	struct connection *conn = connections_get(&c->connections, connection);
	struct fields *f;
	uint32_t text;

	if (r->name > FIELD_REQUEST_LINE)
		return;
	text = text_of_field(c, r);
	if (r->name == FIELD_REQUEST_LINE) {
		if (r->direction == MESSAGE_READ) {
			conn->fields.line = text;
			conn->fields.line_ns = c->now;
		}
		return;
	}
	f = fields_get(c, conn, r->direction);
	if (!f)
		return;
	if (f->stream != r->stream)
		for (unsigned i = 0; i <= FIELD_REQUEST_LINE; i++)
			f->pending[i] = TEXT_NONE;
	f->stream = r->stream;
	f->pending[r->name] = text;
	if (r->inserted)
		f->known[r->number % HTTP2_FIELDS_KEPT] = (struct known_field){
			.number = r->number, .name = r->name, .set = true, .text = text
		};
}

/* The text of a field in a block: a literal, or from the table. */
static uint32_t field_of(const struct fields *f, const struct record_headers *h,
			 enum record_field_name name)
{
	if (f->stream == h->message.stream && f->pending[name] != TEXT_NONE)
		return f->pending[name];
	for (unsigned i = 0; i < MIN(h->n_references, (unsigned)RECORD_REFERENCES); i++) {
		uint32_t number = h->inserted - (uint16_t)(h->inserted - h->references[i]);
		const struct known_field *k = &f->known[number % HTTP2_FIELDS_KEPT];

		if (k->set && k->number == number && k->name == name)
			return k->text;
	}
	return TEXT_NONE;
}

/* "/v1/models/NAME[/versions/VERSION][:verb]", as model servers have it, also with v2. truncated:
 * the path is longer, and so may be the part that it ends with. */
static void set_model(struct correlator *c, struct request *q, bool cut)
{
	const char *path = texts_get(c, q->path), *rest, *version;
	char prefix[12] = "/v_/models/";
	size_t n;

	if (strlen(path) < sizeof(prefix) || (path[2] != '1' && path[2] != '2'))
		return;
	prefix[2] = path[2];
	if (strncmp(path, prefix, sizeof(prefix) - 1))
		return;
	rest = path + sizeof(prefix) - 1;
	n = strcspn(rest, "/:");
	if (!n || (cut && !rest[n]))
		return;
	q->model = texts_add(c, rest, n);
	rest = texts_get(c, q->path) + sizeof(prefix) - 1 + n;
	version = "/versions/";
	if (strncmp(rest, version, strlen(version)))
		return;
	rest += strlen(version);
	n = strcspn(rest, "/:");
	if (n && !(cut && !rest[n]))
		q->version = texts_add(c, rest, n);
}

static void set_request_line(struct correlator *c, struct request *q, uint32_t line)
{
	const char *text = texts_get(c, line), *target = strchr(text, ' ');
	bool cut = strlen(text) >= RECORD_FIELD_SIZE;
	size_t before;

	if (!target)
		return;
	before = (size_t)(target - text);
	q->method = texts_add(c, text, before);
	text = texts_get(c, line) + before + 1;
	q->path = texts_add(c, text, strcspn(text, " "));
	set_model(c, q, cut);
}

void fields_use_request_line(struct correlator *c, struct connection *conn, struct request *q)
{
	/* After a loss it may be that of another request. */
	if (conn->fields.line != TEXT_NONE &&
	    !losses_within(&c->losses, conn->fields.line_ns, c->now))
		set_request_line(c, q, conn->fields.line);
	conn->fields.line = TEXT_NONE;
}

void fields_set_headers(struct correlator *c, uint32_t request, const struct record_headers *h)
{
	static const int statuses[] = { 200, 204, 206, 304, 400, 404, 500 };
	static const char *const methods[] = { "GET", "POST" };
	static const char *const paths[] = { "/", "/index.html" };
	struct requests *r = &c->requests;
	struct connection *conn =
		connections_get(&c->connections, requests_state(r, request)->connection);
	struct fields *f = fields_get(c, conn, h->message.direction);
	struct request *q = requests_get(r, request);
	uint32_t text;

	if (!f)
		return;
	if (h->message.direction == MESSAGE_READ) {
		/* Trailers have neither. */
		text = field_of(f, h, FIELD_METHOD);
		if (text != TEXT_NONE)
			q->method = text;
		if (h->method)
			q->method = texts_add(c, methods[h->method & 1],
					      strlen(methods[h->method & 1]));
		text = field_of(f, h, FIELD_PATH);
		if (text != TEXT_NONE)
			q->path = text;
		if (h->path)
			q->path = texts_add(c, paths[h->path & 1], strlen(paths[h->path & 1]));
		/* A query may hold private data. */
		if (q->path != TEXT_NONE && strchr(texts_get(c, q->path), '?'))
			q->path = texts_add(c, texts_get(c, q->path),
					    strcspn(texts_get(c, q->path), "?"));
		set_model(c, q, false);
	} else {
		text = field_of(f, h, FIELD_STATUS);
		if (h->status >= 8 && h->status <= 14)
			q->status = statuses[h->status - 8];
		else if (text != TEXT_NONE)
			q->status = atoi(texts_get(c, text));
		text = field_of(f, h, FIELD_GRPC_STATUS);
		if (text != TEXT_NONE)
			q->grpc_status = atoi(texts_get(c, text));
	}
	for (unsigned i = 0; i <= FIELD_REQUEST_LINE; i++)
		f->pending[i] = TEXT_NONE;
}

void fields_forget(struct connection *conn, uint8_t direction)
{
	struct fields *f = conn->fields.directions;

	for (unsigned i = 0; f && i < HTTP2_FIELDS_KEPT; i++)
		f[direction & 1].known[i].set = false;
}

void fields_done(struct connection *conn)
{
	free(conn->fields.directions);
	conn->fields.directions = NULL;
}
