/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/servers/rest_answer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/macro.h"
#include "tests/servers/predict_json.h"

/* Runs the model; returns the HTTP status, with a body to free, or no body when memory ran out. */
static int predict(struct service *s, struct model *m, const char *body,
		   struct truth_record *record, char **ret)
{
	char error[512] = "out of memory";
	const char *reason = error;
	struct tensor input = { 0 }, output = { 0 };
	int status = 200, r;

	service_decode(s);
	r = predict_json_decode(body, "instances", &reason, &input);
	if (r >= 0) {
		reason = error;
		r = service_run(s, m, &input, record, error, sizeof(error), &output);
	}
	if (r >= 0)
		r = predict_json_encode(&output, ret);
	if (r < 0) {
		status = r == -EINVAL ? 400 : 500;
		if (predict_json_error(reason, ret) < 0)
			*ret = NULL;
	}
	free(input.values);
	free(output.values);
	return status;
}

static int status_answer(const struct model *m, char **ret)
{
	int size = asprintf(
		ret,
		"{\"model_version_status\": [{\"version\": \"%s\", \"state\": \"AVAILABLE\", "
		"\"status\": {\"error_code\": \"OK\", \"error_message\": \"\"}}]}\n",
		model_version(m));

	if (size < 0)
		*ret = NULL;
	return size < 0 ? 500 : 200;
}

static int path_answer(struct service *s, const struct http1_request *q,
		       struct truth_record *record, char **ret)
{
	static const char prefix[] = "/v1/models/", verb[] = ":predict";
	const char *message = "no such path or model";
	int status = 404;

	if (!strncmp(q->path, prefix, strlen(prefix))) {
		const char *name = q->path + strlen(prefix);
		size_t size = strcspn(name, ":");
		struct model *m = service_model(s, name, size);

		if (m && !name[size] && !strcmp(q->method, "GET"))
			return status_answer(m, ret);
		if (m && !strcmp(name + size, verb) && !strcmp(q->method, "POST"))
			return predict(s, m, q->body, record, ret);
		if (m && (!name[size] || !strcmp(name + size, verb))) {
			status = 405;
			message = "GET asks for a model's status, POST to :predict runs it";
		}
	}
	if (predict_json_error(message, ret) < 0)
		*ret = NULL;
	return status;
}

int rest_answer(struct service *s, const struct http1_request *q, struct truth_record *record,
		struct buffer *ret)
{
	_cleanup_free_ char *body = NULL;
	int status = q->status;

	if (!status)
		status = path_answer(s, q, record, &body);
	else if (predict_json_error(http1_status_text(status), &body) < 0)
		body = NULL;
	return http1_answer(ret, status, body ? body : "{}\n", service_answer_pad(s), q->close);
}
