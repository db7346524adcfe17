/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of tensorflow.serving.PredictionService/Predict, as far as a model of one float
 * tensor in and one out needs them: tensorflow_serving/apis/predict.proto,
 * tensorflow/core/framework/tensor.proto.
 */
#pragma once

#include "tests/servers/buffer.h"
#include "tests/servers/model.h"

#define MODEL_NAME_MAX 64

/* Each appends a whole message. Return 0 or -ENOMEM. */
int predict_proto_request_encode(const char *model, const struct tensor *input, struct buffer *ret);
int predict_proto_response_encode(const char *model, const char *version,
				  const struct tensor *output, struct buffer *ret);

/*
 * Each reads a message; the caller frees ret->values. Return 0, -ENOMEM, -E2BIG when there are more
 * than TENSOR_VALUES_MAX values, or -EINVAL when it is malformed or holds no tensor of floats.
 */
int predict_proto_request_decode(const uint8_t *bytes, size_t size, char model[MODEL_NAME_MAX],
				 struct tensor *ret);
int predict_proto_response_decode(const uint8_t *bytes, size_t size, struct tensor *ret);
