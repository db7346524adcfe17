/* SPDX-License-Identifier: Apache-2.0 */
/* What the server itself calls its threads' work. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct correlator;
struct entry;

/* Nested labels of a thread; deeper ones are not shown. */
#define LABELS_MAX 16

/* The labels that a thread is inside of. Zeros at first. */
struct thread_labels {
	uint32_t depth;
	uint64_t spans[LABELS_MAX]; /* indices, outermost first; NO_SPAN: no room */
};

/* The different names of labels and stages. Zeros at first. */
struct label_names {
	uint32_t n;
};

void labels_open(struct correlator *c, const struct entry *e);
void labels_close(struct correlator *c, const struct entry *e);
/* The labels that threads are inside of, of all threads or of those of one process, go on after
 * that time, unseen. */
void labels_truncate(struct correlator *c, uint64_t time);
void labels_truncate_thread(struct correlator *c, uint32_t thread, uint64_t time);
void labels_truncate_process(struct correlator *c, uint32_t process, uint64_t time);
/* Whether there is room for another name: a server can make names up, so their number is limited.
 */
bool labels_have_room(const struct correlator *c);
/* A name that a server made: an index into names. shown: NULL, or what viewers show. */
uint32_t labels_add_name(struct correlator *c, const char *name, const char *shown);
