/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/stacks/pprof.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "daemon/export/stacks/single.h"
#include "daemon/timeline/names.h"
#include "lib/base/macro.h"
#include "proto/profile.pb-c.h"

/* Profile.sample, as the first byte of an encoded field of bytes. */
#define SAMPLE_TAG (2 << 3 | 2)
/* A frame's number takes at most 4 bytes. */
#define SAMPLE_BYTES_MAX 4096
#define LABELS_MAX 5
#define GZIP_WINDOW (15 + 16)

struct profile {
	const struct timeline *t;
	struct names strings;
	FILE *f;
	char *bytes;
	size_t size;
	uint64_t *ids; /* of the frames of one stack */
	int error;     /* the first one */
};

static int64_t string(struct profile *p, const char *text)
{
	uint32_t index = 0;
	int r = names_add(&p->strings, text, NULL, false, false, &index);

	if (r < 0 && !p->error)
		p->error = r;
	return index;
}

static void add_label(struct profile *p, Perftools__Profiles__Sample *sample,
		      Perftools__Profiles__Label *label, const char *key, const char *text,
		      int64_t number)
{
	*label = (Perftools__Profiles__Label)PERFTOOLS__PROFILES__LABEL__INIT;
	label->key = string(p, key);
	if (text)
		label->str = string(p, text);
	else
		label->num = number;
	sample->label[sample->n_label++] = label;
}

static void add_labels(struct profile *p, const struct stack_sample *from,
		       Perftools__Profiles__Sample *sample, Perftools__Profiles__Label *labels)
{
	const struct timeline *t = p->t;
	const struct thread *thread = &t->threads[from->thread];
	char name[64];

	snprintf(name, sizeof(name), "%s/%u", thread->name, thread->tid);
	add_label(p, sample, &labels[0], "thread", name, 0);
	if (thread->process < t->n_processes) {
		const struct process *process = &t->processes[thread->process];

		snprintf(name, sizeof(name), "%.16s/%u", process->name, process->pid);
		add_label(p, sample, &labels[1], "process", name, 0);
	}
	if (from->op != STACK_NONE)
		add_label(p, sample, &labels[2], "op", t->names[from->op].name, 0);
	if (from->phase < PHASE_COUNT)
		add_label(p, sample, &labels[3], "phase", phase_texts[from->phase].label, 0);
	if (from->request)
		add_label(p, sample, &labels[4], "request", NULL, from->request);
}

static void write_sample(struct profile *p, const struct stack_sample *from, int64_t period)
{
	Perftools__Profiles__Sample sample = PERFTOOLS__PROFILES__SAMPLE__INIT;
	Perftools__Profiles__Label labels[LABELS_MAX], *list[LABELS_MAX];
	const struct stack *stack = &p->t->stacks.stacks[from->stack];
	int64_t values[] = { 1, period };
	uint8_t bytes[SAMPLE_BYTES_MAX];
	size_t size;

	for (uint32_t i = 0; i < stack->n; i++)
		p->ids[i] = p->t->stacks.lists[stack->first + i] + 1;
	sample.location_id = p->ids;
	sample.n_location_id = stack->n;
	sample.value = values;
	sample.n_value = ARRAY_SIZE(values);
	sample.label = list;
	add_labels(p, from, &sample, labels);
	size = perftools__profiles__sample__get_packed_size(&sample);
	if (size > sizeof(bytes)) {
		p->error = p->error ?: -EFBIG;
		return;
	}
	perftools__profiles__sample__pack(&sample, bytes);
	fputc(SAMPLE_TAG, p->f);
	for (size_t rest = size;; rest >>= 7) {
		fputc((int)(rest & 0x7f) | (rest > 0x7f ? 0x80 : 0), p->f);
		if (rest <= 0x7f)
			break;
	}
	fwrite(bytes, 1, size, p->f);
}

/* What the samples refer to: places and functions, each with its index + 1 as its number. */
struct tables {
	Perftools__Profiles__Function *functions, **function_list;
	Perftools__Profiles__Location *locations, **location_list;
	Perftools__Profiles__Line *lines, **line_list;
};

static void tables_done(struct tables *tables)
{
	free(tables->functions);
	free(tables->function_list);
	free(tables->locations);
	free(tables->location_list);
	free(tables->lines);
	free(tables->line_list);
}

/* Of a script without the line, which is a field of its own. */
static int64_t file_of(struct profile *p, const struct stack_function *f)
{
	_cleanup_free_ char *file = f->line ? strdup(f->file) : NULL;
	char *colon = file ? strrchr(file, ':') : NULL;

	if (colon)
		*colon = 0;
	return string(p, file ?: f->file);
}

static int tables_make(struct profile *p, struct tables *ret)
{
	const struct stacks *s = &p->t->stacks;
	size_t n = s->n_functions + 1, m = s->n_frames + 1;

	ret->functions = malloc(n * sizeof(ret->functions[0]));
	ret->function_list = malloc(n * sizeof(ret->function_list[0]));
	ret->locations = malloc(m * sizeof(ret->locations[0]));
	ret->location_list = malloc(m * sizeof(ret->location_list[0]));
	ret->lines = malloc(m * sizeof(ret->lines[0]));
	ret->line_list = malloc(m * sizeof(ret->line_list[0]));
	if (!ret->functions || !ret->function_list || !ret->locations || !ret->location_list ||
	    !ret->lines || !ret->line_list)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_functions; i++) {
		Perftools__Profiles__Function *f = ret->function_list[i] = &ret->functions[i];

		*f = (Perftools__Profiles__Function)PERFTOOLS__PROFILES__FUNCTION__INIT;
		f->id = i + 1;
		f->name = f->system_name = string(p, s->functions[i].name);
		f->filename = file_of(p, &s->functions[i]);
		f->start_line = s->functions[i].line;
	}
	for (size_t i = 0; i < s->n_frames; i++) {
		Perftools__Profiles__Location *l = ret->location_list[i] = &ret->locations[i];
		Perftools__Profiles__Line *line = ret->line_list[i] = &ret->lines[i];

		*line = (Perftools__Profiles__Line)PERFTOOLS__PROFILES__LINE__INIT;
		line->function_id = s->frames[i].function + 1;
		line->line = s->functions[s->frames[i].function].line;
		*l = (Perftools__Profiles__Location)PERFTOOLS__PROFILES__LOCATION__INIT;
		l->id = i + 1;
		l->address = s->frames[i].process >= STACK_SCRIPT ? 0 : s->frames[i].address;
		l->n_line = 1;
		l->line = &ret->line_list[i];
	}
	return 0;
}

/* Everything but the samples, whose strings are known by then. */
static int write_rest(struct profile *p, int64_t period)
{
	Perftools__Profiles__Profile m = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__ValueType count = PERFTOOLS__PROFILES__VALUE_TYPE__INIT, cpu = count;
	Perftools__Profiles__ValueType *types[] = { &count, &cpu };
	_cleanup_(tables_done) struct tables tables = {};
	_cleanup_free_ uint8_t *bytes = NULL;
	_cleanup_free_ char **strings = NULL;
	int r = tables_make(p, &tables);

	if (r < 0)
		return r;
	count.type = string(p, "samples");
	count.unit = string(p, "count");
	cpu.type = string(p, "cpu");
	cpu.unit = string(p, "nanoseconds");
	m.sample_type = types;
	m.n_sample_type = ARRAY_SIZE(types);
	m.period_type = &cpu;
	m.period = period;
	m.default_sample_type = cpu.type;
	m.time_nanos = (int64_t)p->t->start_unix_ns;
	m.duration_nanos = (int64_t)(p->t->end_ns - p->t->start_ns);
	m.function = tables.function_list;
	m.n_function = p->t->stacks.n_functions;
	m.location = tables.location_list;
	m.n_location = p->t->stacks.n_frames;
	strings = malloc(names_count(&p->strings) * sizeof(strings[0]));
	if (!strings || p->error)
		return p->error ?: -ENOMEM;
	for (uint32_t i = 0; i < names_count(&p->strings); i++)
		strings[i] = (char *)names_text(&p->strings, i);
	m.string_table = strings;
	m.n_string_table = names_count(&p->strings);
	bytes = malloc(perftools__profiles__profile__get_packed_size(&m));
	if (!bytes)
		return -ENOMEM;
	fwrite(bytes, 1, perftools__profiles__profile__pack(&m, bytes), p->f);
	return 0;
}

static int compress_all(const char *bytes, size_t size, void **ret, size_t *ret_size)
{
	z_stream z = { .next_in = (Bytef *)bytes };
	uLong room;
	int r;

	if (size > UINT32_MAX)
		return -EFBIG;
	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	room = deflateBound(&z, size);
	*ret = malloc(room);
	z.avail_in = (uInt)size;
	z.next_out = *ret;
	z.avail_out = (uInt)MIN(room, (uLong)UINT32_MAX);
	r = *ret ? deflate(&z, Z_FINISH) : Z_MEM_ERROR;
	*ret_size = z.total_out;
	deflateEnd(&z);
	if (r == Z_STREAM_END)
		return 0;
	free(*ret);
	return -ENOMEM;
}

static void write_all(struct profile *p)
{
	const struct stacks *s = &p->t->stacks;
	int64_t period = s->hz ? 1000000000 / s->hz : 0;
	int r;

	string(p, "");
	for (size_t i = 0; i < s->n_samples && !p->error; i++)
		write_sample(p, &s->samples[i], period);
	r = p->error ? p->error : write_rest(p, period);
	p->error = p->error ?: r;
}

static int make(const struct timeline *t, const struct export_options *options,
		struct exported *ret)
{
	struct profile p = { .t = t };
	size_t size = 0, longest = 1;
	void *packed = NULL;

	for (size_t i = 0; i < t->stacks.n_stacks; i++)
		longest = MAX(longest, (size_t)t->stacks.stacks[i].n);
	p.ids = malloc(longest * sizeof(p.ids[0]));
	p.f = open_memstream(&p.bytes, &p.size);
	if (p.ids && p.f)
		write_all(&p);
	else
		p.error = -ENOMEM;
	if (p.f && fclose(p.f) != 0)
		p.error = p.error ?: -ENOMEM;
	if (!p.error)
		p.error = compress_all(p.bytes, p.size, &packed, &size);
	free(p.bytes);
	free(p.ids);
	names_done(&p.strings);
	return p.error < 0
		       ? p.error
		       : single_bytes(packed, size, options->max_bytes, t->stacks.n_samples, ret);
}

const struct exporter pprof_exporter = { .name = "pprof", .make = make };
