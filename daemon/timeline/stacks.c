/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/timeline/stacks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/hash.h"
#include "lib/base/macro.h"
#include "lib/proto/phase.h"

/* Some 100 MB in all. */
#define SAMPLES_MAX (1u << 20)
#define FRAMES_MAX (1u << 18)
#define LISTED_MAX (8u << 20)

void stacks_done(struct stacks *s)
{
	for (size_t i = 0; i < s->n_functions; i++) {
		free(s->functions[i].name);
		free(s->functions[i].file);
	}
	free(s->functions);
	free(s->frames);
	free(s->stacks);
	free(s->lists);
	free(s->samples);
	map_done(&s->of_function);
	map_done(&s->of_frame);
	map_done(&s->of_stack);
	*s = (struct stacks){};
}

int stacks_frame(struct stacks *s, uint32_t process, uint64_t address, uint32_t *ret)
{
	/* Addresses of processes have 47 bits. */
	uint64_t key = (address & (UINT64_MAX >> 8)) | (uint64_t)(process & 0x7f) << 56;
	const uint64_t *found = map_get(&s->of_frame, key);

	if (found) {
		*ret = (uint32_t)*found;
		return 0;
	}
	if (s->n_frames == FRAMES_MAX)
		return -E2BIG;
	if (array_reserve(&s->frames, s->n_frames, &s->frames_size, sizeof(s->frames[0]), 1) < 0 ||
	    map_put(&s->of_frame, key, s->n_frames) < 0)
		return -ENOMEM;
	*ret = (uint32_t)s->n_frames;
	s->frames[s->n_frames++] = (struct stack_frame){ .address = address,
							 .process = process,
							 .function = STACK_NONE };
	return 0;
}

static uint64_t hash(struct stacks *s, const void *bytes, size_t size)
{
	if (!s->seed)
		s->seed = hash_seed();
	return hash_text(s->seed, bytes, size) >> 1;
}

int stacks_function(struct stacks *s, const char *name, const char *file, uint32_t *ret)
{
	uint64_t key = hash(s, name, strlen(name)) ^ hash(s, file, strlen(file)) >> 1;
	struct stack_function *f;
	const uint64_t *found;

	/* Two functions of one hash take neighboring keys. */
	for (; (found = map_get(&s->of_function, key)); key++) {
		f = &s->functions[*found];
		if (!strcmp(f->name, name) && !strcmp(f->file, file)) {
			*ret = (uint32_t)*found;
			return 0;
		}
	}
	if (array_reserve(&s->functions, s->n_functions, &s->functions_size,
			  sizeof(s->functions[0]), 1) < 0)
		return -ENOMEM;
	f = &s->functions[s->n_functions];
	*f = (struct stack_function){ .name = strdup(name), .file = strdup(file) };
	if (!f->name || !f->file || map_put(&s->of_function, key, s->n_functions) < 0) {
		free(f->name);
		free(f->file);
		return -ENOMEM;
	}
	*ret = (uint32_t)s->n_functions++;
	return 0;
}

static int find_stack(struct stacks *s, const uint32_t *frames, uint32_t n, uint32_t *ret)
{
	uint64_t key = hash(s, frames, n * sizeof(frames[0]));
	const uint64_t *found;

	for (; (found = map_get(&s->of_stack, key)); key++) {
		const struct stack *stack = &s->stacks[*found];

		if (stack->n == n &&
		    !memcmp(&s->lists[stack->first], frames, n * sizeof(frames[0]))) {
			*ret = (uint32_t)*found;
			return 0;
		}
	}
	if (s->n_listed + n > LISTED_MAX)
		return -E2BIG;
	if (array_reserve(&s->stacks, s->n_stacks, &s->stacks_size, sizeof(s->stacks[0]), 1) < 0 ||
	    array_reserve(&s->lists, s->n_listed, &s->lists_size, sizeof(s->lists[0]), n) < 0 ||
	    map_put(&s->of_stack, key, s->n_stacks) < 0)
		return -ENOMEM;
	memcpy(&s->lists[s->n_listed], frames, n * sizeof(frames[0]));
	*ret = (uint32_t)s->n_stacks;
	s->stacks[s->n_stacks++] = (struct stack){ .first = s->n_listed, .n = n };
	s->n_listed += n;
	return 0;
}

int stacks_add(struct stacks *s, uint64_t at_ns, uint32_t thread, const uint32_t *frames,
	       uint32_t n)
{
	uint32_t stack;
	int r;

	if (s->n_samples == SAMPLES_MAX)
		return -E2BIG;
	r = find_stack(s, frames, n, &stack);
	if (r < 0)
		return r;
	if (array_reserve(&s->samples, s->n_samples, &s->samples_size, sizeof(s->samples[0]), 1) <
	    0)
		return -ENOMEM;
	s->samples[s->n_samples++] = (struct stack_sample){ .at_ns = at_ns,
							    .thread = thread,
							    .stack = stack,
							    .op = STACK_NONE,
							    .phase = PHASE_COUNT };
	return 0;
}
