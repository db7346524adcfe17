/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/request_options.h"

#include <errno.h>
#include <string.h>

#include "cli/outcome.h"
#include "lib/base/duration.h"
#include "lib/base/macro.h"
#include "lib/base/number.h"

#define SLOWEST_MAX 1000
#define COUNT_MAX 1000000
#define TEXT_MAX 4096

enum { KEY_REQUESTS = 256, KEY_SLOWEST, KEY_COUNT, KEY_SLOWER, KEY_PATH, KEY_MODEL };

static const struct argp_option output_list[] = {
	{ NULL, 0, NULL, 0, "Requests:", 1 },
	{ "requests", KEY_REQUESTS, "FILE", 0,
	  "Write one JSON object per request into FILE, in place of what it holds", 1 },
	{ "slowest", KEY_SLOWEST, "K", 0,
	  "Show the K slowest requests: what each waited for, and when", 1 },
	{}
};

static const struct argp_option filter_list[] = {
	{ "requests-count", KEY_COUNT, "N", 0,
	  "End the window when N requests have finished; --duration, 1m unless given, is the longest",
	  1 },
	{ "slower-than", KEY_SLOWER, "TIME", 0, "Leave out requests that did not take longer", 1 },
	{ "path", KEY_PATH, "GLOB", 0,
	  "Leave out requests of other paths; * stands for any text, ? for one character", 1 },
	{ "model", KEY_MODEL, "NAME", 0, "Leave out requests of other models", 1 },
	{}
};

static uint64_t parse_count(struct argp_state *state, const char *text, unsigned long max,
			    const char *what)
{
	uint64_t number = 0;
	int r = number_parse(text, 1, max, &number);

	if (r == -EINVAL)
		argp_error(state, "'%s' is no number of %s", text, what);
	if (r < 0)
		argp_error(state, "the number of %s must be 1 to %lu, not '%s'", what, max, text);
	return number;
}

static const char *check_text(struct argp_state *state, const char *text, const char *what)
{
	if (!*text || strlen(text) > TEXT_MAX)
		argp_error(state, "%s has 1 to %d bytes", what, TEXT_MAX);
	return text;
}

/* argp_error() does not return. */
static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct request_options *o = state->input;

	switch (key) {
	case KEY_REQUESTS:
		o->file = text;
		return 0;
	case KEY_SLOWEST:
		o->slowest = (uint32_t)parse_count(state, text, SLOWEST_MAX, "slowest requests");
		return 0;
	case KEY_COUNT:
		o->count = parse_count(state, text, COUNT_MAX, "requests");
		return 0;
	case KEY_SLOWER:
		if (duration_parse(text, &o->slower_than_ns) < 0)
			argp_error(
				state,
				"'%s' is no time above 0 and up to one hour: write 20ms, 0.5s or 1m",
				text);
		return 0;
	case KEY_PATH:
		o->path = check_text(state, text, "a path");
		return 0;
	case KEY_MODEL:
		o->model = check_text(state, text, "a model");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp request_output_argp = { .options = output_list, .parser = parse_option };
const struct argp request_filter_argp = { .options = filter_list, .parser = parse_option };

void request_options_fill(const struct request_options *o, Tfprofd__RequestFilter *filter)
{
	*filter = (Tfprofd__RequestFilter)TFPROFD__REQUEST_FILTER__INIT;
	filter->slower_than_ns = o->slower_than_ns;
	filter->count = o->count;
	if (o->path)
		filter->path = (char *)o->path;
	if (o->model)
		filter->model = (char *)o->model;
}

int request_reader_open(struct request_reader *reader, const struct request_options *o)
{
	int r = o->file ? request_file_new(o->file, &reader->file) : 0;

	if (r < 0)
		outcome_say("%s cannot be written: %s", o->file, strerror(-r));
	return r;
}

static int keep_slowest(struct request_reader *reader, Tfprofd__CaptureReply *reply)
{
	Tfprofd__CaptureReply **replies =
		reallocarray(reader->replies, reader->n_replies + 1, sizeof(*replies));
	Tfprofd__Request **slowest;

	if (!replies)
		return -ENOMEM;
	reader->replies = replies;
	slowest = reallocarray(reader->slowest, reader->n_slowest + reply->n_slowest,
			       sizeof(*slowest));
	if (!slowest)
		return -ENOMEM;
	reader->slowest = slowest;
	memcpy(&slowest[reader->n_slowest], reply->slowest, reply->n_slowest * sizeof(*slowest));
	reader->n_slowest += reply->n_slowest;
	reader->replies[reader->n_replies++] = reply;
	return 0;
}

int request_reader_take(struct request_reader *reader, Tfprofd__CaptureReply *reply)
{
	bool keep = reply->n_slowest;
	int r = 0;

	for (size_t i = 0; reader->file && i < reply->n_requests && r >= 0; i++)
		r = request_file_add(reader->file, reply->requests[i]);
	if (r >= 0 && keep)
		r = keep_slowest(reader, reply);
	if (r < 0 || !keep)
		tfprofd__capture_reply__free_unpacked(reply, NULL);
	if (r < 0)
		outcome_say("cannot write the requests: %s", strerror(-r));
	return r;
}

int request_reader_commit(struct request_reader *reader, const struct request_options *o)
{
	int r = reader->file ? request_file_commit(reader->file) : 0;

	if (r < 0)
		outcome_say("cannot write the requests into %s: %s", o->file, strerror(-r));
	return r;
}

void request_reader_done(struct request_reader *reader)
{
	for (size_t i = 0; i < reader->n_replies; i++)
		tfprofd__capture_reply__free_unpacked(reader->replies[i], NULL);
	free(reader->replies);
	free(reader->slowest);
	request_file_free(reader->file);
	*reader = (struct request_reader){};
}
