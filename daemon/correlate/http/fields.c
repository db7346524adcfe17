/* SPDX-License-Identifier: Apache-2.0 */
/* What requests and answers say of themselves: in their first lines, and in blocks of header
 * fields. */
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/http/connections.h"
#include "daemon/correlate/http/fields.h"
#include "lib/base/macro.h"

static const char *text_of(const struct correlator *c, uint32_t text)
{
	return text == TEXT_NONE ? "" : c->t->texts[text];
}

static struct fields *fields_get(struct correlator *c, struct connection *conn, uint8_t direction)
{
	if (!conn->fields) {
		conn->fields = calloc(2, sizeof(*conn->fields));
		if (!conn->fields) {
			c->error = -ENOMEM;
			return NULL;
		}
		for (unsigned i = 0; i < 2; i++)
			for (unsigned k = 0; k <= FIELD_REQUEST_LINE; k++)
				conn->fields[i].pending[k] = TEXT_NONE;
	}
	return &conn->fields[direction & 1];
}

/* Decodes a text in HPACK's Huffman code, as a field that no table knows. */
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
		text = correlator_text(c, (const char *)field.value, field.valuelen);
	nghttp2_hd_inflate_del(inflater);
	return text;
}

static uint32_t text_of_field(struct correlator *c, const struct record_field *r)
{
	/* The part of a text that is kept may end within a code; the whole is not known then. */
	if (r->size > RECORD_FIELD_SIZE && (r->huffman || r->name != FIELD_REQUEST_LINE))
		return correlator_text(c, "(too long)", strlen("(too long)"));
	if (r->huffman)
		return text_of_huffman(c, (const uint8_t *)r->text, r->size);
	return correlator_text(c, r->text, MIN(r->size, RECORD_FIELD_SIZE));
}

void fields_on_field(struct correlator *c, const struct record_field *r)
{
	uint32_t at = connection_get(c, r->socket, r->inode, r->head.target, r->head.time), text;
	struct connection *conn;
	struct fields *f;

	if (at == NO_REQUEST || r->name > FIELD_REQUEST_LINE)
		return;
	text = text_of_field(c, r);
	conn = &c->requests->connections[at];
	if (r->name == FIELD_REQUEST_LINE) {
		if (r->direction == MESSAGE_READ)
			conn->line = text;
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
		f->known[r->number % FIELDS_MAX] = (struct known_field){
			.number = r->number, .name = r->name, .set = true, .text = text
		};
}

/* A text of a block: literal, or one that the table holds. */
static uint32_t field_of(const struct fields *f, const struct record_headers *h,
			 enum record_field_name name)
{
	if (f->stream == h->message.stream && f->pending[name] != TEXT_NONE)
		return f->pending[name];
	for (unsigned i = 0; i < MIN(h->n_references, (unsigned)RECORD_REFERENCES); i++) {
		uint32_t number = h->inserted - (uint16_t)(h->inserted - h->references[i]);
		const struct known_field *k = &f->known[number % FIELDS_MAX];

		if (k->set && k->number == number && k->name == name)
			return k->text;
	}
	return TEXT_NONE;
}

/* "/v1/models/NAME[/versions/VERSION][:verb]", as model servers have it, also with v2. cut: the
 * path goes on, so what ends with it may, too. */
static void set_model(struct correlator *c, struct request *q, bool cut)
{
	const char *path = text_of(c, q->path), *rest, *version;
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
	q->model = correlator_text(c, rest, n);
	rest = text_of(c, q->path) + sizeof(prefix) - 1 + n;
	version = "/versions/";
	if (strncmp(rest, version, strlen(version)))
		return;
	rest += strlen(version);
	n = strcspn(rest, "/:");
	if (n && !(cut && !rest[n]))
		q->version = correlator_text(c, rest, n);
}

void fields_set_request_line(struct correlator *c, struct request *q, uint32_t line)
{
	const char *text = text_of(c, line), *target = strchr(text, ' ');
	bool cut = strlen(text) >= RECORD_FIELD_SIZE;
	size_t before;

	if (!target)
		return;
	before = (size_t)(target - text);
	q->method = correlator_text(c, text, before);
	text = text_of(c, line) + before + 1;
	q->path = correlator_text(c, text, strcspn(text, " "));
	set_model(c, q, cut);
}

void fields_set_headers(struct correlator *c, uint32_t request, const struct record_headers *h)
{
	static const int statuses[] = { 200, 204, 206, 304, 400, 404, 500 };
	static const char *const methods[] = { "GET", "POST" };
	static const char *const paths[] = { "/", "/index.html" };
	struct requests *r = c->requests;
	struct connection *conn = &r->connections[r->states[request].connection];
	struct fields *f = fields_get(c, conn, h->message.direction);
	struct request *q = &r->list[request];
	uint32_t text;

	if (!f)
		return;
	if (h->message.direction == MESSAGE_READ) {
		/* Trailers have neither. */
		text = field_of(f, h, FIELD_METHOD);
		if (text != TEXT_NONE)
			q->method = text;
		if (h->method)
			q->method = correlator_text(c, methods[h->method & 1],
						    strlen(methods[h->method & 1]));
		text = field_of(f, h, FIELD_PATH);
		if (text != TEXT_NONE)
			q->path = text;
		if (h->path)
			q->path =
				correlator_text(c, paths[h->path & 1], strlen(paths[h->path & 1]));
		/* A query is nobody's business. */
		if (q->path != TEXT_NONE && strchr(text_of(c, q->path), '?'))
			q->path = correlator_text(c, text_of(c, q->path),
						  strcspn(text_of(c, q->path), "?"));
		set_model(c, q, false);
	} else {
		text = field_of(f, h, FIELD_STATUS);
		if (h->status >= 8 && h->status <= 14)
			q->status = statuses[h->status - 8];
		else if (text != TEXT_NONE)
			q->status = atoi(text_of(c, text));
		text = field_of(f, h, FIELD_GRPC_STATUS);
		if (text != TEXT_NONE)
			q->grpc_status = atoi(text_of(c, text));
	}
	for (unsigned i = 0; i <= FIELD_REQUEST_LINE; i++)
		f->pending[i] = TEXT_NONE;
}

void fields_forget(struct connection *conn, uint8_t direction)
{
	for (unsigned i = 0; conn->fields && i < FIELDS_MAX; i++)
		conn->fields[direction & 1].known[i].set = false;
}
