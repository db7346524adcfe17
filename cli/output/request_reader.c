/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/request_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/outcome.h"

void request_filter_fill(const struct request_options *o, Tfprofd__RequestFilter *filter)
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

	reader->path = o->file;
	if (r < 0)
		outcome_report("cannot write %s: %s", o->file, strerror(-r));
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
	if (r < 0 && reader->file)
		outcome_report("cannot write the requests to %s: %s; nothing was written",
			       reader->path, strerror(-r));
	else if (r < 0)
		outcome_report("cannot list the requests: %s", strerror(-r));
	return r;
}

int request_reader_commit(struct request_reader *reader, const struct request_options *o)
{
	int r = reader->file ? request_file_commit(reader->file) : 0;

	if (r < 0)
		outcome_report("cannot write the requests to %s: %s", o->file, strerror(-r));
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
