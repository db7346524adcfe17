/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings of real servers under load (tests/recordings), taken apart: a test delivers their
 * records as it likes and examines the correlator's result.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "daemon/capture/recorded_rows.h"
#include "daemon/correlate/correlate.h"
#include "daemon/record/journal.h"
#include "lib/base/macro.h"
#include "proto/recording.pb-c.h"

#define RECORDED_BYTES_MAX (64u << 20)

struct recorded {
	const char *name;
	uint64_t start_ns, stop_ns;
	struct correlate_target targets[RECORD_MAX_TARGETS];
	struct recorded_rows rows[RECORD_MAX_TARGETS];
	struct record_layout layouts[RECORD_MAX_TARGETS];
	unsigned n_targets;
	struct record **records;
	size_t n;
	uint8_t *memory; /* of the records */
};

/* Records that reach the correlator, in order. */
struct delivery {
	uint64_t start_ns, stop_ns;
	const struct record **records;
	size_t n;
	struct interval {
		uint64_t from_ns, to_ns;
	} * losses; /* that the correlator receives */
	size_t n_losses;
};

static inline void *recorded_read_file(const char *path, size_t *ret_size)
{
	uint8_t *bytes = malloc(RECORDED_BYTES_MAX);
	gzFile file = gzopen(path, "rb");
	int size = file && bytes ? gzread(file, bytes, RECORDED_BYTES_MAX) : -1;

	if (file)
		gzclose(file);
	if (size < 0) {
		free(bytes);
		return NULL;
	}
	*ret_size = (size_t)size;
	return bytes;
}

static inline bool recorded_add_target(struct recorded *r, const Tfprofd__RecordingHead *head,
				       const struct journal_section *s)
{
	Tfprofd__RecordingTarget *m = tfprofd__recording_target__unpack(NULL, s->size, s->bytes);
	struct correlate_target *target = &r->targets[r->n_targets];

	if (!m || r->n_targets == RECORD_MAX_TARGETS || m->pack >= head->n_packs)
		return false;
	if (recorded_rows_find(head->packs[m->pack]->probes, head->packs[m->pack]->n_probes, false,
			       &r->rows[r->n_targets]) < 0)
		return false;
	*target = (struct correlate_target){ .pid = m->pid,
					     .packs = r->rows[r->n_targets].set,
					     .since_ns = m->since_ns,
					     .ops_at_entry = m->ops_at_entry,
					     .has_handlers = m->has_handlers };
	snprintf(target->name, sizeof(target->name), "%s", m->name);
	tfprofd__recording_target__free_unpacked(m, NULL);
	r->n_targets++;
	return true;
}

static inline bool recorded_add_records(struct recorded *r, const Tfprofd__RecordingHead *head,
					struct journal_reader *reader,
					const struct journal_section *s, size_t *used)
{
	const struct recorded_rows *known;
	const struct record *record;
	size_t at = 0, size;
	int more;

	while ((more = journal_next_record(reader, s, &at, &record, &size)) > 0) {
		struct record *copy = memcpy(r->memory + *used, record, size);

		*used += size;
		r->records[r->n++] = copy;
		if (copy->kind != RECORD_PROBE || copy->target >= r->n_targets)
			continue;
		known = &r->rows[copy->target];
		if (record->site >= known->n || known->numbers[record->site] < 0)
			return false;
		copy->site = (uint8_t)known->numbers[record->site];
	}
	return more == 0;
}

static inline bool recorded_add_section(struct recorded *r, Tfprofd__RecordingHead **head,
					struct journal_reader *reader,
					const struct journal_section *s, size_t *used)
{
	Tfprofd__RecordingLayout *layout;
	Tfprofd__RecordingResult *result;

	switch (s->kind) {
	case JOURNAL_HEAD:
		*head = tfprofd__recording_head__unpack(NULL, s->size, s->bytes);
		r->start_ns = *head ? (*head)->start_ns : 0;
		return *head != NULL;
	case JOURNAL_TARGET:
		return recorded_add_target(r, *head, s);
	case JOURNAL_LAYOUT:
		layout = tfprofd__recording_layout__unpack(NULL, s->size, s->bytes);
		if (!layout || layout->target >= RECORD_MAX_TARGETS)
			return false;
		r->layouts[layout->target] =
			(struct record_layout){ layout->name_offset, layout->type_offset };
		tfprofd__recording_layout__free_unpacked(layout, NULL);
		return true;
	case JOURNAL_RECORDS:
		return recorded_add_records(r, *head, reader, s, used);
	case JOURNAL_RESULT:
		result = tfprofd__recording_result__unpack(NULL, s->size, s->bytes);
		r->stop_ns = result ? result->stop_ns : 0;
		if (result)
			tfprofd__recording_result__free_unpacked(result, NULL);
		return result != NULL;
	default:
		/* Nothing was shed, or lost. */
		return s->kind & JOURNAL_OPTIONAL;
	}
}

/* Reads a recording; on failure there are no records. recorded_done() frees it. */
static inline struct recorded recorded_load(const char *directory, const char *name)
{
	struct recorded r = { .name = name };
	Tfprofd__RecordingHead *head = NULL;
	struct journal_reader reader = {};
	struct journal_section section;
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t size = 0, used = 0;
	char path[256];
	bool good;
	int more = 0;

	snprintf(path, sizeof(path), "%s/%s.tfp.gz", directory, name);
	bytes = recorded_read_file(path, &size);
	reader.bytes = bytes;
	reader.size = size;
	r.memory = malloc(size + 1);
	r.records = calloc(size / sizeof(struct record) + 1, sizeof(r.records[0]));
	good = bytes && r.memory && r.records && journal_open(&reader) >= 0;
	while (good && (more = journal_next(&reader, &section)) > 0)
		good = recorded_add_section(&r, &head, &reader, &section, &used);
	if (head)
		tfprofd__recording_head__free_unpacked(head, NULL);
	if (!good || more < 0) {
		fprintf(stderr, "  %s: cannot be read: %s\n", path, reader.error);
		r.n = 0;
	}
	return r;
}

static inline void recorded_done(struct recorded *r)
{
	free(r->records);
	free(r->memory);
	*r = (struct recorded){};
}

/* The correlator's result for it; NULL: it failed. */
static inline struct timeline *recorded_correlate(const struct recorded *r,
						  const struct delivery *d)
{
	struct correlator *c = NULL;
	struct timeline *t = NULL;
	int error = correlator_new(d->start_ns, &c);

	for (unsigned i = 0; i < r->n_targets && !error; i++)
		error = correlator_add_target(c, &r->targets[i]);
	for (unsigned i = 0; i < r->n_targets && !error; i++)
		error = correlator_set_layout(c, i, 0, &r->layouts[i]);
	for (size_t i = 0; i < d->n_losses && !error; i++)
		error = correlator_note_loss(c, d->losses[i].from_ns, d->losses[i].to_ns);
	for (size_t i = 0; i < d->n && !error; i++)
		error = correlator_feed(c, d->records[i]);
	if (!error)
		error = correlator_finish(c, d->stop_ns, 0, &t);
	correlator_free(c);
	return error ? NULL : t;
}
