/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exporter turns a finished timeline into a file. A new format is a folder beside this file that
 * implements struct exporter, and one line in the list in exporter.c. Pure: memory in, memory out.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "daemon/export/summary/advice.h"
#include "daemon/timeline/timeline.h"

struct exporter;
struct modules;
struct startups;

/* Formats of one capture beside the trace. */
#define EXPORTS_MAX 4

/* What a client requests of a trace. */
struct export_extras {
	const struct exporter *exporter; /* of which format; NULL: the first of the list */
	/* Other formats of the same capture. */
	const struct exporter *others[EXPORTS_MAX];
	unsigned n_others;
	bool device_plane; /* the CPU is presented as a device, and a warning reports that */
	bool input_stages; /* the phases of requests before they run are shown as input stages, and
			      as operations */
};

struct export_options {
	unsigned int level;   /* host_tracer_level; more than 3 is 3 */
	const char *hostname; /* NULL: none */
	uint64_t max_bytes;   /* of the result; 0: as long as the format allows */
	/* Facts that are not in the timeline: each a sentence that the trace shows. */
	const char *const *errors;
	unsigned int n_errors;
	const struct modules *modules;   /* NULL: none */
	const struct startups *startups; /* likewise */
	struct export_extras extras;
	const struct advice
		*advice; /* its sentences begin with "Advice: " among the warnings; NULL: none */
};

/* The encoded bytes: the chunks one after the other. */
struct exported {
	struct iovec *chunks;
	size_t n_chunks;
	uint64_t size; /* of all chunks */
	uint64_t n_events;
	void *memory; /* behind the chunks; the exporter's */
	void (*free)(struct exported *exported);
};

/* Frees it; one of zeros, or one that was freed before, is accepted. */
void exported_done(struct exported *exported);

struct exporter {
	const char *name; /* of the format, as clients ask for it */
	/* Encodes the timeline. *ret does not refer to it, and is untouched on failure. -ENOMEM;
	 * -EFBIG when there would be more bytes than options->max_bytes, or the format allows. */
	int (*make)(const struct timeline *t, const struct export_options *options,
		    struct exported *ret);
	/* A warning about the form of the trace; NULL: none. The text is static. The function may
	 * be NULL. */
	const char *(*warning)(const struct timeline *t, const struct export_options *options);
};

/* All formats, with NULL behind the last; the first one is the default. */
extern const struct exporter *const exporters[];
/* "": the default. NULL: there is none of this name. */
const struct exporter *exporter_find(const char *name);
