/* SPDX-License-Identifier: Apache-2.0 */
/* A SavedModel with one float input and one float output, loaded and run through TensorFlow's C
 * API. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TENSOR_VALUES_MAX 65536

/* [N] floats, or [N, D] of them. */
struct tensor {
	int dims_n;
	int64_t dims[2];
	float *values;
};

struct model;

/*
 * Loads the highest version under directory (…/NAME/VERSION/saved_model.pb). Returns 0; -ENOENT
 * when there is no version, -EINVAL when TensorFlow refuses it or its serving_default signature is
 * not one float tensor in and one out, -ENOMEM, or another negative errno. On failure, error holds
 * a sentence.
 */
int model_load(const char *directory, char *error, size_t error_size, struct model **ret);
struct model *model_free(struct model *m);

const char *model_name(const struct model *m);
/* The version, as its folder is named. */
const char *model_version(const struct model *m);
/* Fills dims with a shape that the model accepts, its open dimensions being rows; returns how many
 * it has. */
int model_input_shape(const struct model *m, int64_t rows, int64_t dims[2]);

/* Whether it answers [x / 2 + 2, largest x of the batch, rows of the batch] to each x, as batched
 * of make_models.py. */
bool model_is_batched(const struct model *m);

/* Id of the thread that ran the caller's last model; 0: the caller itself. */
extern _Thread_local uint32_t model_thread;

/*
 * Runs the model; any number of threads may at once. The caller frees ret->values. Returns 0,
 * -EINVAL when the input does not fit or TensorFlow fails, -ENOMEM, -E2BIG when the answer is
 * larger than TENSOR_VALUES_MAX. On failure, error holds a sentence.
 */
int model_run(struct model *m, const struct tensor *input, char *error, size_t error_size,
	      struct tensor *ret);
