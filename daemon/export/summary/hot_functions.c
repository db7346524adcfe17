/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/summary/hot_functions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/macro.h"

/* Types of operations that are distinguished. */
#define TYPES_MAX 1024
#define PLACE_NONE UINT32_MAX
/* Innermost functions of one request's samples that are counted. */
#define OWN_MAX 256

struct type {
	const char *name;
	uint64_t samples;
	uint32_t place; /* of the most frequent ones, index */
};

struct count {
	uint64_t self, total;
	size_t last; /* the sample + 1 that was counted last: recursion counts once */
};

struct search {
	const struct timeline *t;
	struct type types[TYPES_MAX];
	unsigned n_types;
	uint32_t *type_of; /* by name; PLACE_NONE: not looked for, or no room */
	uint32_t place_of_phase[PHASE_COUNT];
	struct count *counts; /* by place, then by function */
	struct hot_places *hot;
};

void hot_places_done(struct hot_places *hot)
{
	for (unsigned i = 0; i < hot->n; i++) {
		free(hot->list[i].name);
		for (unsigned k = 0; k < hot->list[i].n_functions; k++) {
			free(hot->list[i].functions[k].name);
			free(hot->list[i].functions[k].file);
		}
	}
	hot->n = 0;
}

static const char *type_name(const struct timeline *t, uint32_t op)
{
	return t->names[op].display ?: t->names[op].name;
}

static uint32_t find_type(struct search *s, uint32_t op)
{
	const char *name = type_name(s->t, op);
	unsigned i = 0;

	if (s->type_of[op] != PLACE_NONE)
		return s->type_of[op];
	while (i < s->n_types && strcmp(s->types[i].name, name))
		i++;
	if (i == TYPES_MAX)
		return PLACE_NONE;
	if (i == s->n_types)
		s->types[s->n_types++] = (struct type){ .name = name, .place = PLACE_NONE };
	s->type_of[op] = i;
	return i;
}

static int add_place(struct search *s, enum hot_kind kind, const char *name, uint64_t samples,
		     uint32_t *ret)
{
	struct hot_place *place = &s->hot->list[s->hot->n];

	*place = (struct hot_place){ .kind = kind, .name = strdup(name), .samples = samples };
	if (!place->name)
		return -ENOMEM;
	*ret = s->hot->n++;
	return 0;
}

static int add_ops(struct search *s)
{
	int r = 0;

	for (unsigned n = 0; n < HOT_OPS_MAX && r >= 0; n++) {
		struct type *most = NULL;

		for (unsigned i = 0; i < s->n_types; i++)
			if (s->types[i].place == PLACE_NONE &&
			    (!most || s->types[i].samples > most->samples))
				most = &s->types[i];
		if (!most)
			break;
		r = add_place(s, HOT_OP, most->name, most->samples, &most->place);
	}
	return r;
}

/* The places that have samples. */
static int list_places(struct search *s)
{
	const struct stacks *stacks = &s->t->stacks;
	uint64_t phases[PHASE_COUNT] = {};
	uint32_t ignored;
	int r;

	for (size_t i = 0; i < stacks->n_samples; i++) {
		const struct stack_sample *sample = &stacks->samples[i];
		uint32_t type = sample->op == STACK_NONE ? PLACE_NONE : find_type(s, sample->op);

		if (sample->phase < PHASE_COUNT)
			phases[sample->phase]++;
		if (type != PLACE_NONE)
			s->types[type].samples++;
	}
	r = add_place(s, HOT_ALL, "", stacks->n_samples, &ignored);
	for (unsigned i = 0; i < PHASE_COUNT && r >= 0; i++) {
		s->place_of_phase[i] = PLACE_NONE;
		if (phases[i])
			r = add_place(s, HOT_PHASE, phase_texts[i].label, phases[i],
				      &s->place_of_phase[i]);
	}
	return r < 0 ? r : add_ops(s);
}

static void count_sample(struct search *s, uint32_t place, size_t number)
{
	const struct stacks *stacks = &s->t->stacks;
	const struct stack *stack = &stacks->stacks[stacks->samples[number].stack];
	struct count *counts;

	if (place == PLACE_NONE)
		return;
	counts = s->counts + place * stacks->n_functions;
	for (uint32_t i = 0; i < stack->n; i++) {
		struct count *c = &counts[stacks->frames[stacks->lists[stack->first + i]].function];

		c->self += i == 0;
		c->total += c->last != number + 1;
		c->last = number + 1;
	}
}

static void count_all(struct search *s)
{
	const struct stacks *stacks = &s->t->stacks;

	for (size_t i = 0; i < stacks->n_samples; i++) {
		const struct stack_sample *sample = &stacks->samples[i];
		uint32_t type = sample->op == STACK_NONE ? PLACE_NONE : s->type_of[sample->op];

		count_sample(s, 0, i);
		if (sample->phase < PHASE_COUNT)
			count_sample(s, s->place_of_phase[sample->phase], i);
		if (type != PLACE_NONE)
			count_sample(s, s->types[type].place, i);
	}
}

/* The functions with most self samples; of equal ones the first in the list. */
static int choose_functions(const struct search *s, unsigned number)
{
	const struct stacks *stacks = &s->t->stacks;
	struct count *counts = s->counts + number * stacks->n_functions;
	struct hot_place *place = &s->hot->list[number];

	while (place->n_functions < HOT_FUNCTIONS_MAX) {
		struct hot_function *f = &place->functions[place->n_functions];
		size_t most = 0;

		for (size_t i = 1; i < stacks->n_functions; i++)
			if (counts[i].self > counts[most].self)
				most = i;
		if (!counts[most].self)
			break;
		*f = (struct hot_function){ .name = strdup(stacks->functions[most].name),
					    .file = strdup(stacks->functions[most].file),
					    .self = counts[most].self,
					    .total = counts[most].total };
		place->n_functions++;
		if (!f->name || !f->file)
			return -ENOMEM;
		counts[most].self = 0;
	}
	return 0;
}

static int make(struct search *s)
{
	const struct stacks *stacks = &s->t->stacks;
	int r;

	s->type_of = malloc((s->t->n_names + 1) * sizeof(s->type_of[0]));
	if (!s->type_of)
		return -ENOMEM;
	memset(s->type_of, 0xff, s->t->n_names * sizeof(s->type_of[0]));
	r = list_places(s);
	if (r < 0)
		return r;
	s->counts = calloc(s->hot->n * stacks->n_functions, sizeof(s->counts[0]));
	if (!s->counts)
		return -ENOMEM;
	count_all(s);
	for (unsigned i = 0; i < s->hot->n && r >= 0; i++)
		r = choose_functions(s, i);
	return r;
}

int hot_places_make(const struct timeline *t, struct hot_places *ret)
{
	struct search *s;
	int r;

	ret->n = 0;
	if (!t->stacks.n_samples)
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->t = t;
	s->hot = ret;
	r = make(s);
	free(s->type_of);
	free(s->counts);
	free(s);
	if (r < 0)
		hot_places_done(ret);
	return r;
}

/* In how many of the samples the function is anywhere. */
static uint64_t count_anywhere(const struct stacks *s, const uint64_t *samples, uint64_t n,
			       uint32_t function)
{
	uint64_t found = 0;

	for (uint64_t i = 0; i < n; i++) {
		const struct stack *stack = &s->stacks[s->samples[samples[i]].stack];
		uint32_t k = 0;

		while (k < stack->n && s->frames[s->lists[stack->first + k]].function != function)
			k++;
		found += k < stack->n;
	}
	return found;
}

unsigned hot_functions_of(const struct stacks *s, const uint64_t *samples, uint64_t n,
			  struct hot_function ret[HOT_FUNCTIONS_MAX])
{
	uint32_t functions[OWN_MAX], n_functions = 0, chosen = 0;
	uint64_t self[OWN_MAX] = {};

	for (uint64_t i = 0; i < n; i++) {
		const struct stack *stack = &s->stacks[s->samples[samples[i]].stack];
		uint32_t function = s->frames[s->lists[stack->first]].function, k = 0;

		while (k < n_functions && functions[k] != function)
			k++;
		if (k == OWN_MAX)
			continue;
		if (k == n_functions)
			functions[n_functions++] = function;
		self[k]++;
	}
	for (; chosen < MIN(n_functions, (uint32_t)HOT_FUNCTIONS_MAX); chosen++) {
		uint32_t most = 0;

		for (uint32_t k = 1; k < n_functions; k++)
			if (self[k] > self[most])
				most = k;
		ret[chosen] = (struct hot_function){ .name = s->functions[functions[most]].name,
						     .file = s->functions[functions[most]].file,
						     .self = self[most],
						     .total = count_anywhere(s, samples, n,
									     functions[most]) };
		self[most] = 0;
	}
	return chosen;
}
