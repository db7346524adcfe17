/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/json.h"

#include <math.h>

#include "lib/base/macro.h"
#include "lib/base/utf8.h"

static void write_escaped(FILE *file, uint32_t code)
{
	switch (code) {
	case '"':
	case '\\':
		fprintf(file, "\\%c", (int)code);
		break;
	case '\n':
		fputs("\\n", file);
		break;
	case '\t':
		fputs("\\t", file);
		break;
	default:
		fprintf(file, "\\u%04x", (unsigned int)code);
	}
}

/* The length of the prefix that needs no escape. */
static size_t plain_length(const char *text)
{
	size_t n = 0;

	while (text[n] >= 0x20 && text[n] < 0x7f && text[n] != '"' && text[n] != '\\')
		n++;
	return n;
}

static void write_string(FILE *file, const char *text)
{
	fputc('"', file);
	while (*text) {
		uint32_t code;
		size_t size = plain_length(text);

		/* The common case. */
		if (size) {
			fwrite(text, 1, size, file);
			text += size;
			continue;
		}
		size = utf8_next(text, UTF8_MAX, &code);
		if (!size)
			fputs("\xef\xbf\xbd", file); /* U+FFFD */
		else if (code < 0x20 || (code >= 0x7f && code < 0xa0) || code == '"' ||
			 code == '\\')
			write_escaped(file, code);
		else
			fwrite(text, 1, size, file);
		text += MAX(size, (size_t)1);
	}
	fputc('"', file);
}

static void begin_line(const struct json *json)
{
	if (!json->compact)
		fprintf(json->file, "\n%*s", (int)json->depth * 2, "");
}

static void begin_value(struct json *json, const char *key)
{
	if (json->comma)
		fputc(',', json->file);
	if (json->depth)
		begin_line(json);
	if (key) {
		write_string(json->file, key);
		fputs(json->compact ? ":" : ": ", json->file);
	}
	json->comma = true;
}

static void begin_level(struct json *json, const char *key, char bracket)
{
	begin_value(json, key);
	fputc(bracket, json->file);
	json->depth++;
	json->comma = false;
}

static void end_level(struct json *json, char bracket)
{
	json->depth--;
	if (json->comma)
		begin_line(json);
	fputc(bracket, json->file);
	json->comma = true;
	if (!json->depth)
		fputc('\n', json->file);
}

void json_object_begin(struct json *json, const char *key)
{
	begin_level(json, key, '{');
}

void json_object_end(struct json *json)
{
	end_level(json, '}');
}

void json_array_begin(struct json *json, const char *key)
{
	begin_level(json, key, '[');
}

void json_array_end(struct json *json)
{
	end_level(json, ']');
}

void json_string(struct json *json, const char *key, const char *text)
{
	begin_value(json, key);
	if (text)
		write_string(json->file, text);
	else
		fputs("null", json->file);
}

void json_number(struct json *json, const char *key, uint64_t number)
{
	begin_value(json, key);
	fprintf(json->file, "%llu", (unsigned long long)number);
}

void json_integer(struct json *json, const char *key, int64_t number)
{
	begin_value(json, key);
	fprintf(json->file, "%lld", (long long)number);
}

void json_real(struct json *json, const char *key, double number)
{
	begin_value(json, key);
	if (isfinite(number))
		fprintf(json->file, "%.3f", number);
	else
		fputs("null", json->file);
}

void json_bool(struct json *json, const char *key, bool value)
{
	begin_value(json, key);
	fputs(value ? "true" : "false", json->file);
}
