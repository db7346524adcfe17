/* SPDX-License-Identifier: Apache-2.0 */
/* What the flight recorder waits for to keep a snapshot: a section [trigger NAME] of the
 * configuration. */
#pragma once

#include <stdint.h>

#define TRIGGERS_MAX 16
/* Letters, digits, '-' and '_': names of files begin with it. */
#define TRIGGER_NAME_SIZE 33
#define TRIGGER_MODEL_SIZE 128
#define TRIGGER_REASON_SIZE 256

enum trigger_condition {
	TRIGGER_NONE,
	/* So many requests of the window took longer than latency_ns. */
	TRIGGER_LATENCY,
	/* More than a hundredth of the window's requests, which are at least so many, did. */
	TRIGGER_P99,
	/* More than this share of the window's requests, which are at least so many, failed. */
	TRIGGER_ERRORS,
	/* More than so many requests are in progress. */
	TRIGGER_QUEUE,
};

struct trigger_rule {
	char name[TRIGGER_NAME_SIZE];
	char model[TRIGGER_MODEL_SIZE]; /* a glob; "": any request */
	enum trigger_condition condition;
	uint64_t latency_ns;
	double percent;
	uint32_t requests, queue;
	uint64_t window_ns;
	uint64_t last_ns; /* how far back the snapshot reaches */
};

/* What the broker knows of the rules. */
struct trigger_names {
	uint32_t n;
	char names[TRIGGERS_MAX][TRIGGER_NAME_SIZE];
};
