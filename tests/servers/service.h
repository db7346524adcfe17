/* SPDX-License-Identifier: Apache-2.0 */
/* What the REST and the gRPC side of the native server share: its models, the ground truth, and
 * injected delays. */
#pragma once

#include <stddef.h>

#include "tests/servers/model.h"
#include "tests/servers/truth.h"

/* Every n-th request is delayed, by this n. */
#define SERVICE_DELAY_EVERY 20

struct service_options {
	const char *truth; /* file for the ground truth, or NULL */
	/* How long a thread "lock_holder" holds the lock that a request needs for its run; 0:
	 * never. */
	long delay_lock_ms;
	/* How long a request sleeps while it is decoded; 0: never. */
	long delay_decode_ms;
	size_t answer_pad; /* bytes of white space after each REST answer */
};

struct service;

/* The models must live until service_free(). Returns 0, -ENOMEM, or why the file or the thread
 * could not be made. */
int service_new(struct model *const *models, size_t models_n, const struct service_options *options,
		struct service **ret);
/* Every thread that serves must have ended. Writes the ground truth. */
struct service *service_free(struct service *s);

/* A model by its name, of so many bytes; NULL when there is none. */
struct model *service_model(const struct service *s, const char *name, size_t size);
size_t service_answer_pad(const struct service *s);

/* To be called while a request is decoded: the place of an injected delay. */
void service_decode(struct service *s);
/* model_run() with its injected delay; fills in what the record contains about the run. */
int service_run(struct service *s, struct model *m, const struct tensor *input,
		struct truth_record *record, char *error, size_t error_size, struct tensor *ret);
/* The answer was sent: the record is complete. */
void service_done(struct service *s, struct truth_record *record);
