/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/servers/predict_json.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/macro.h"

#define DEPTH_MAX 32

static const char *space_skip(const char *at)
{
	return at + strspn(at, " \t\r\n");
}

/* Steps over a character that must come next; NULL when it does not. */
static const char *expect(const char *at, char c)
{
	at = space_skip(at);
	return *at == c ? at + 1 : NULL;
}

static const char *string_skip(const char *at)
{
	at = expect(at, '"');
	while (at && *at != '"') {
		if (*at == '\\')
			at++;
		at = *at ? at + 1 : NULL;
	}
	return at ? at + 1 : NULL;
}

static const char *value_skip(const char *at, int depth)
{
	at = space_skip(at);
	if (depth > DEPTH_MAX || !*at)
		return NULL;
	if (*at == '"')
		return string_skip(at);
	if (*at != '[' && *at != '{') {
		size_t n = strspn(at, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");

		return n ? at + n : NULL;
	}

	char close = *at == '[' ? ']' : '}';
	bool object = *at == '{';

	at = space_skip(at + 1);
	if (*at == close)
		return at + 1;
	for (;;) {
		if (object) {
			at = string_skip(at);
			at = at ? expect(at, ':') : NULL;
		}
		at = at ? value_skip(at, depth + 1) : NULL;
		if (!at)
			return NULL;
		at = space_skip(at);
		if (*at == close)
			return at + 1;
		if (*at++ != ',')
			return NULL;
	}
}

/* [1, 2, …] onto the end of values; NULL when it is not that. */
static const char *row_read(const char *at, float *values, int64_t *count)
{
	at = expect(at, '[');
	if (!at)
		return NULL;
	for (;;) {
		at = space_skip(at);
		/* strtof would also take hexadecimal numbers, infinities and words. */
		const char *digit = at + (*at == '-');
		char *end;

		if (!isdigit((unsigned char)*digit) || digit[1] == 'x' ||
		    *count == TENSOR_VALUES_MAX)
			return NULL;

		values[(*count)++] = strtof(at, &end);
		at = space_skip(end);
		if (*at == ']')
			return at + 1;
		if (*at++ != ',')
			return NULL;
	}
}

static const char *rows_read(const char *at, struct tensor *t)
{
	int64_t count = 0, width = 0;

	at = expect(at, '[');
	if (!at)
		return NULL;
	for (t->dims[0] = 0;;) {
		at = row_read(at, t->values, &count);
		if (!at)
			return NULL;
		t->dims[0]++;
		if (!width)
			width = count;
		if (count != t->dims[0] * width)
			return NULL;
		at = space_skip(at);
		if (*at == ']')
			break;
		if (*at++ != ',')
			return NULL;
	}
	t->dims[1] = width;
	t->dims_n = 2;
	return at + 1;
}

static const char *instances_read(const char *at, struct tensor *t)
{
	const char *inside = expect(at, '[');

	if (inside && *space_skip(inside) == '[')
		return rows_read(at, t);
	t->dims_n = 1;
	t->dims[0] = 0;
	return row_read(at, t->values, &t->dims[0]);
}

int predict_json_decode(const char *body, const char *member, const char **reason,
			struct tensor *ret)
{
	/* A number and what parts it from the next take two bytes at least. */
	size_t room = MIN((strlen(body) + 1) / 2, (size_t)TENSOR_VALUES_MAX);
	_cleanup_free_ float *values = malloc((room + 1) * sizeof(*values));
	struct tensor t = { .values = values };
	const char *at = expect(body, '{');
	size_t member_size = strlen(member);

	if (!values)
		return -ENOMEM;
	*reason =
		"the body is not a JSON object with a list of numbers, or of equally long rows of them, "
		"as \"instances\"";
	while (at) {
		const char *key = space_skip(at);
		const char *after = string_skip(key);

		at = after ? expect(after, ':') : NULL;
		if (!at)
			return -EINVAL;
		/* Between its quotation marks. */
		if ((size_t)(after - key) == member_size + 2 &&
		    !memcmp(key + 1, member, member_size))
			at = instances_read(at, &t);
		else
			at = value_skip(at, 0);
		if (!at)
			return -EINVAL;
		at = space_skip(at);
		if (*at == '}')
			break;
		at = expect(at, ',');
	}
	if (!at || !t.dims_n || *space_skip(at + 1))
		return -EINVAL;
	TAKE_PTR(values);
	*ret = t;
	return 0;
}

static void row_write(FILE *out, const float *values, int64_t count)
{
	fputc('[', out);
	for (int64_t i = 0; i < count; i++) {
		if (i)
			fputs(", ", out);
		if (isfinite(values[i]))
			fprintf(out, "%.9g", (double)values[i]);
		else
			fputs("null", out);
	}
	fputc(']', out);
}

static int stream_finish(FILE *out)
{
	bool failed = ferror(out);

	return fclose(out) || failed ? -ENOMEM : 0;
}

int predict_json_encode(const struct tensor *output, char **ret)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return -ENOMEM;
	fputs("{\"predictions\": ", out);
	if (output->dims_n == 1) {
		row_write(out, output->values, output->dims[0]);
	} else {
		for (int64_t i = 0; i < output->dims[0]; i++) {
			fputs(i ? ", " : "[", out);
			row_write(out, output->values + i * output->dims[1], output->dims[1]);
		}
		fputs(output->dims[0] ? "]" : "[]", out);
	}
	fputs("}\n", out);
	if (stream_finish(out) < 0) {
		free(text);
		return -ENOMEM;
	}
	*ret = text;
	return 0;
}

int predict_json_error(const char *message, char **ret)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return -ENOMEM;
	fputs("{\"error\": \"", out);
	for (const unsigned char *c = (const unsigned char *)message; *c; c++) {
		if (*c == '"' || *c == '\\')
			fprintf(out, "\\%c", *c);
		else if (*c < 0x20)
			fprintf(out, "\\u%04x", *c);
		else
			fputc(*c, out);
	}
	fputs("\"}\n", out);
	if (stream_finish(out) < 0) {
		free(text);
		return -ENOMEM;
	}
	*ret = text;
	return 0;
}
