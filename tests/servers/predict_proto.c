/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/servers/predict_proto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/macro.h"
#include "tests/servers/wire.h"

#define TYPE_FLOAT 1 /* DataType.DT_FLOAT */

/* Of the messages: fields that both encoding and decoding name. */
enum { SPEC_NAME = 1, SPEC_VERSION = 2, SPEC_SIGNATURE = 3 };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { TENSOR_TYPE = 1, TENSOR_SHAPE = 2, TENSOR_CONTENT = 4, TENSOR_FLOAT = 5 };
enum { SHAPE_DIM = 2, DIM_SIZE = 1 };
enum { REQUEST_SPEC = 1, REQUEST_INPUTS = 2, RESPONSE_OUTPUTS = 1, RESPONSE_SPEC = 2 };

static size_t tensor_count(const struct tensor *t)
{
	size_t count = 1;

	for (int i = 0; i < t->dims_n; i++)
		count *= (size_t)t->dims[i];
	return count;
}

/* Appends a message as a field of another one, and frees it. */
static void message_put(struct buffer *b, uint32_t number, struct buffer *message)
{
	wire_put_bytes(b, number, message->bytes, message->used);
	b->failed |= message->failed;
	buffer_clear(message);
}

/* An entry of map<string, TensorProto>. */
static void entry_put(struct buffer *b, uint32_t number, const char *key, const struct tensor *t)
{
	struct buffer entry = { 0 }, tensor = { 0 }, shape = { 0 };

	for (int i = 0; i < t->dims_n; i++) {
		struct buffer dim = { 0 };

		wire_put_number(&dim, DIM_SIZE, (uint64_t)t->dims[i]);
		message_put(&shape, SHAPE_DIM, &dim);
	}
	wire_put_number(&tensor, TENSOR_TYPE, TYPE_FLOAT);
	message_put(&tensor, TENSOR_SHAPE, &shape);
	wire_put_bytes(&tensor, TENSOR_CONTENT, t->values, tensor_count(t) * sizeof(float));
	wire_put_bytes(&entry, ENTRY_KEY, key, strlen(key));
	message_put(&entry, ENTRY_VALUE, &tensor);
	message_put(b, number, &entry);
}

int predict_proto_request_encode(const char *model, const struct tensor *input, struct buffer *ret)
{
	struct buffer spec = { 0 };

	wire_put_bytes(&spec, SPEC_NAME, model, strlen(model));
	message_put(ret, REQUEST_SPEC, &spec);
	entry_put(ret, REQUEST_INPUTS, "x", input);
	return ret->failed ? -ENOMEM : 0;
}

int predict_proto_response_encode(const char *model, const char *version,
				  const struct tensor *output, struct buffer *ret)
{
	struct buffer spec = { 0 }, number = { 0 };

	entry_put(ret, RESPONSE_OUTPUTS, "y", output);
	wire_put_bytes(&spec, SPEC_NAME, model, strlen(model));
	/* A google.protobuf.Int64Value, whose only field is 1. */
	wire_put_number(&number, 1, strtoull(version, NULL, 10));
	message_put(&spec, SPEC_VERSION, &number);
	wire_put_bytes(&spec, SPEC_SIGNATURE, "serving_default", strlen("serving_default"));
	message_put(ret, RESPONSE_SPEC, &spec);
	return ret->failed ? -ENOMEM : 0;
}

static int shape_read(struct wire shape, struct tensor *t)
{
	struct wire_field f, d;

	t->dims_n = 0;
	while (wire_next(&shape, &f)) {
		if (f.number != SHAPE_DIM)
			continue;
		if (t->dims_n == (int)ARRAY_SIZE(t->dims))
			return -EINVAL;
		uint64_t size = 0;

		while (wire_next(&f.bytes, &d))
			if (d.number == DIM_SIZE)
				size = d.value;
		if (size > TENSOR_VALUES_MAX)
			return -E2BIG;
		t->dims[t->dims_n++] = (int64_t)size;
	}
	return t->dims_n ? 0 : -EINVAL;
}

/* The values of a tensor are tensor_content, or float_val, whose last one stands for those that are
 * missing. */
static int tensor_read(struct wire message, struct tensor *ret)
{
	struct wire content = { 0 }, packed = { 0 };
	struct tensor t = { 0 };
	struct wire_field f;
	uint64_t type = 0;
	int r = 0;

	while (r >= 0 && wire_next(&message, &f)) {
		if (f.number == TENSOR_TYPE)
			type = f.value;
		else if (f.number == TENSOR_SHAPE)
			r = shape_read(f.bytes, &t);
		else if (f.number == TENSOR_CONTENT)
			content = f.bytes;
		else if (f.number == TENSOR_FLOAT)
			packed = f.bytes;
	}
	if (r < 0)
		return r;
	if (message.at != message.end || type != TYPE_FLOAT || !t.dims_n)
		return -EINVAL;
	size_t count = tensor_count(&t), given;

	if (count > TENSOR_VALUES_MAX)
		return -E2BIG;
	if (content.at == content.end)
		content = packed;
	given = (size_t)(content.end - content.at) / sizeof(float);
	if (given > count || (!given && count) || (content.at != packed.at && given != count))
		return -EINVAL;
	t.values = malloc(MAX(count, (size_t)1) * sizeof(float));
	if (!t.values)
		return -ENOMEM;
	if (given)
		memcpy(t.values, content.at, given * sizeof(float));
	for (size_t i = given; i < count; i++)
		t.values[i] = t.values[given - 1];
	*ret = t;
	return 0;
}

static int entry_read(struct wire entry, struct tensor *ret)
{
	struct wire_field f;

	while (wire_next(&entry, &f))
		if (f.number == ENTRY_VALUE)
			return tensor_read(f.bytes, ret);
	return -EINVAL;
}

static void name_read(struct wire spec, char model[MODEL_NAME_MAX])
{
	struct wire_field f;

	while (wire_next(&spec, &f)) {
		if (f.number == SPEC_NAME) {
			size_t size =
				MIN((size_t)(f.bytes.end - f.bytes.at), (size_t)MODEL_NAME_MAX - 1);

			memcpy(model, f.bytes.at, size);
			model[size] = 0;
		}
	}
}

static int message_decode(struct wire message, uint32_t spec, uint32_t tensors, char *model,
			  struct tensor *ret)
{
	struct tensor t = { 0 };
	struct wire_field f;
	int r = 0;

	while (r >= 0 && wire_next(&message, &f)) {
		if (f.number == spec && model)
			name_read(f.bytes, model);
		else if (f.number == tensors)
			r = t.values ? -EINVAL : entry_read(f.bytes, &t);
	}
	if (r >= 0 && (message.at != message.end || !t.values))
		r = -EINVAL;
	if (r < 0) {
		free(t.values);
		return r;
	}
	*ret = t;
	return 0;
}

int predict_proto_request_decode(const uint8_t *bytes, size_t size, char model[MODEL_NAME_MAX],
				 struct tensor *ret)
{
	model[0] = 0;
	return message_decode((struct wire){ bytes, bytes + size }, REQUEST_SPEC, REQUEST_INPUTS,
			      model, ret);
}

int predict_proto_response_decode(const uint8_t *bytes, size_t size, struct tensor *ret)
{
	return message_decode((struct wire){ bytes, bytes + size }, RESPONSE_SPEC, RESPONSE_OUTPUTS,
			      NULL, ret);
}
