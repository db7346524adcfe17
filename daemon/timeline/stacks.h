/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What threads executed at the moments at which their CPUs were sampled. A place, a stack and a
 * function each exist once, so that samples are small and equal ones are counted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/map.h"

/* The process of a frame in the kernel. */
#define STACK_KERNEL UINT32_MAX
/* That of a function of a script, whose address is a number of a capture. */
#define STACK_SCRIPT (UINT32_MAX - 1)
#define STACK_NONE UINT32_MAX
/* As the file of functions of the kernel. */
#define STACK_KERNEL_FILE "[kernel]"

struct stack_function {
	char *name; /* as in the source; of an unknown one the place */
	char *file; /* its name without the directory; "": unknown */
	/* Of a script: its first one, which .file ends with, after a colon; 0: of no script. */
	uint32_t line;
};

/* A place in code. */
struct stack_frame {
	uint64_t address;  /* of, or within, the instruction; in the kernel a number of a capture */
	uint32_t process;  /* index; STACK_KERNEL */
	uint32_t function; /* index into functions; STACK_NONE: not looked for yet */
};

struct stack {
	uint64_t first; /* index into lists: of the innermost frame */
	uint32_t n;
};

struct stack_sample {
	uint64_t at_ns;
	uint32_t thread;  /* index into the timeline's threads */
	uint32_t stack;   /* index into stacks */
	uint32_t op;      /* index into the timeline's names; STACK_NONE: in no operation */
	uint32_t request; /* index into the timeline's requests + 1; 0: for none, or unknown */
	uint8_t phase;    /* enum phase, of that request; PHASE_COUNT: unknown */
};

struct stacks {
	struct stack_function *functions;
	struct stack_frame *frames;
	struct stack *stacks;
	uint32_t *lists; /* indices into frames */
	struct stack_sample *samples;
	size_t n_functions, n_frames, n_stacks, n_listed, n_samples;
	uint64_t n_left_out; /* samples for which there was no room */
	unsigned hz;         /* how often each CPU was sampled; 0: never */

	/* For finding what exists already. */
	size_t functions_size, frames_size, stacks_size, lists_size, samples_size;
	struct map of_function, of_frame, of_stack;
	uint64_t seed;
};

void stacks_done(struct stacks *s);
/* The index of a frame. -ENOMEM; -E2BIG: there are too many. */
int stacks_frame(struct stacks *s, uint32_t process, uint64_t address, uint32_t *ret);
/* The index of a function. -ENOMEM. */
int stacks_function(struct stacks *s, const char *name, const char *file, uint32_t *ret);
/* Adds a sample with these frames, the innermost first. -ENOMEM; -E2BIG: there are too many. */
int stacks_add(struct stacks *s, uint64_t at_ns, uint32_t thread, const uint32_t *frames,
	       uint32_t n);

/* The function of a frame of a stack, counted from the innermost one. Every frame has one in a
 * timeline that is exported. */
static inline const struct stack_function *stack_function_at(const struct stacks *s,
							     const struct stack *stack, uint32_t i)
{
	return &s->functions[s->frames[s->lists[stack->first + i]].function];
}
