/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/answer.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cli/connect/session.h"
#include "cli/report/text.h"
#include "lib/base/duration.h"
#include "lib/base/macro.h"
#include "proto/control.pb-c.h"

/* Smaller traces arrive at once. */
#define BAR_BYTES_MIN (8u << 20)
#define BAR_WIDTH 40

static void show_progress(const Tfprofd__CaptureProgress *progress, uint64_t duration_ns,
			  uint64_t count)
{
	char elapsed[DURATION_TEXT], total[DURATION_TEXT], records[TEXT_NUMBER],
		dropped[TEXT_NUMBER];

	fprintf(stderr, "\r\033[K%s of %s, ",
		duration_text(MIN(progress->elapsed_ns, duration_ns), elapsed),
		duration_text(duration_ns, total));
	if (count)
		fprintf(stderr, "%llu of %llu request%s, ", (unsigned long long)progress->requests,
			(unsigned long long)count, text_plural(count));
	fprintf(stderr, "%s event%s, %s lost%s", text_count(progress->records, records),
		text_plural(progress->records), text_count(progress->dropped, dropped),
		progress->elapsed_ns >= duration_ns ? ", waiting for the result" : "");
}

static void show_download(uint64_t bytes, uint64_t total)
{
	char bar[BAR_WIDTH + 1], come[TEXT_NUMBER], all[TEXT_NUMBER];
	size_t n = (size_t)(bytes * BAR_WIDTH / total);

	memset(bar, '.', BAR_WIDTH);
	memset(bar, '#', MIN(n, (size_t)BAR_WIDTH));
	bar[BAR_WIDTH] = 0;
	fprintf(stderr, "\r\033[K[%s] %s of %s", bar, text_bytes(bytes, come),
		text_bytes(total, all));
}

static int on_recording(struct answer *answer, const ProtobufCBinaryData *piece)
{
	int r = answer->recording ? new_file_write(answer->recording, piece->data, piece->len)
				  : -EBADMSG;

	if (r < 0)
		outcome_report("cannot write the recording %s: %s; nothing was written",
			       answer->recording_path ? answer->recording_path
						      : "that was not requested",
			       strerror(-r));
	return r;
}

static int on_xspace(struct answer *answer, const Tfprofd__CaptureReply *reply)
{
	uint64_t before = answer->output.size;

	if (output_take_xspace(&answer->output, reply->xspace.data, reply->xspace.len) !=
	    OUTCOME_OK)
		return -EIO;
	/* One update per percent. */
	if (answer->show_progress && reply->xspace_bytes >= BAR_BYTES_MIN &&
	    answer->output.size <= reply->xspace_bytes &&
	    answer->output.size * 100 / reply->xspace_bytes != before * 100 / reply->xspace_bytes)
		show_download(answer->output.size, reply->xspace_bytes);
	return 0;
}

static int on_reply(uint8_t *bytes, size_t size, void *data)
{
	struct answer *answer = data;
	Tfprofd__CaptureReply *reply = tfprofd__capture_reply__unpack(NULL, size, bytes);
	int r = 0;

	free(bytes);
	if (!reply || (reply->result && answer->output.reply)) {
		if (reply)
			tfprofd__capture_reply__free_unpacked(reply, NULL);
		outcome_report("cannot decode the daemon's reply");
		return -EBADMSG;
	}
	if (reply->result) {
		answer->output.reply = reply;
		return 0;
	}
	if (reply->plan) {
		output_take_plan(&answer->output, reply);
		return 0;
	}
	if (reply->n_requests || reply->n_slowest)
		return request_reader_take(&answer->output.requests, reply);
	if (reply->recording.len)
		r = on_recording(answer, &reply->recording);
	if (r >= 0 && reply->xspace.len)
		r = on_xspace(answer, reply);
	if (r >= 0 && reply->exported.len)
		r = answer->output.exports
			    ? export_files_add(answer->output.exports, reply->exported_number,
					       reply->exported.data, reply->exported.len)
			    : -EBADMSG;
	if (reply->progress && answer->show_progress)
		show_progress(reply->progress, answer->duration_ns, answer->count);
	tfprofd__capture_reply__free_unpacked(reply, NULL);
	return r;
}

enum outcome answer_ask(struct answer *answer, struct session *session, const char *path,
			const ProtobufCMessage *request, uint64_t timeout_ns)
{
	_cleanup_free_ uint8_t *packed = malloc(protobuf_c_message_get_packed_size(request) + 1);
	enum outcome outcome;

	if (!packed) {
		outcome_report("out of memory");
		return OUTCOME_INTERNAL;
	}
	outcome = session_stream(session, path, packed, protobuf_c_message_pack(request, packed),
				 timeout_ns, on_reply, answer);
	if (answer->show_progress)
		fputs("\r\033[K", stderr);
	if (outcome == OUTCOME_OK && !answer->output.reply) {
		outcome_report("the daemon sent no result");
		return OUTCOME_INTERNAL;
	}
	return outcome;
}
