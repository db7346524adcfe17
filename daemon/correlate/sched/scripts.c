/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/sched/scripts.h"

#include <stdio.h>
#include <string.h>

#include "daemon/correlate/correlator.h"
#include "lib/base/escape.h"
#include "lib/base/macro.h"

#define TRUNCATED (UINT64_C(1) << 32) /* a number that no function has */
#define TRUNCATED_NAME "[more functions of the script]"
#define UNNAMED "[function of a script]"
#define NOT_ASCII "[name that is not ASCII]"
#define LEFT_OUT "..."
/* Bytes: one with a case for each instruction has ten times as many. */
#define WHOLE_EVALUATOR 4096
#define NAME_SIZE (RECORD_SCRIPT_TEXT + sizeof(LEFT_OUT))

unsigned scripts_words(const struct record_stack *r)
{
	unsigned n = SCRIPT_FRAMES(r->script);

	return n ? n + SCRIPT_RANGES : 0;
}

/* The end of a text, as far as it was kept. */
static void copy_text(const char *text, uint32_t size, char ret[static NAME_SIZE])
{
	uint32_t kept = MIN(size, (uint32_t)RECORD_SCRIPT_TEXT);

	if (size == SCRIPT_NOT_ASCII)
		snprintf(ret, NAME_SIZE, "%s", NOT_ASCII);
	else if (!size)
		snprintf(ret, NAME_SIZE, "%s", UNNAMED);
	else
		snprintf(ret, NAME_SIZE, "%s%.*s", kept < size ? LEFT_OUT : "", (int)kept, text);
	escape_overwrite(ret);
}

void scripts_on_script(struct correlator *c, const struct record_script *r)
{
	char name[NAME_SIZE], path[NAME_SIZE], file[NAME_SIZE + 16];
	uint32_t function;
	const char *slash;

	copy_text(r->name, r->name_size, name);
	copy_text(r->file, r->file_size, path);
	slash = strrchr(path, '/');
	snprintf(file, sizeof(file), "%s:%u", slash ? slash + 1 : path, r->line);
	correlator_fail(c, stacks_function(&c->t->stacks, name, file, &function));
	if (c->error)
		return;
	c->t->stacks.functions[function].line = r->line;
	correlator_put(c, &c->scripts.names, r->number, function);
}

void scripts_count(struct correlator *c, const struct record_stack *r)
{
	c->scripts.n_samples += r->script != 0;
	c->scripts.n_unreadable += (r->script & SCRIPT_UNREADABLE) != 0;
}

/* The frames of a script that are not listed yet. */
struct rest {
	const __u64 *frames;
	unsigned n, at;
	bool is_truncated; /* there are more */
};

static int add(struct stacks *s, uint32_t process, uint64_t address, uint32_t *list, uint32_t *n)
{
	int r = stacks_frame(s, process, address, &list[*n]);

	*n += r >= 0;
	return r;
}

/* Those of one call of the evaluator, or all. */
static int add_scripts(struct stacks *s, struct rest *rest, bool all, uint32_t *list, uint32_t *n)
{
	bool is_entry = false;
	int r = 0;

	while (rest->at < rest->n && (all || !is_entry) && r >= 0) {
		is_entry = rest->frames[rest->at] & SCRIPT_IS_ENTRY;
		r = add(s, STACK_SCRIPT, SCRIPT_NUMBER(rest->frames[rest->at++]), list, n);
	}
	if (rest->at == rest->n && rest->is_truncated && (all || !is_entry) && r >= 0) {
		rest->is_truncated = false;
		r = add(s, STACK_SCRIPT, TRUNCATED, list, n);
	}
	return r;
}

/* The frames of the thread outside of scripts. */
struct native {
	const __u64 *frames;
	unsigned n;
	/* Of the interpreter, as words of the record. */
	const __u64 *ranges;
};

/* A call can be the last instruction of its function: where it returns to then is in the next one.
 */
static uint64_t address_of(const struct native *native, unsigned i)
{
	return native->frames[i] - (i > 0 && native->frames[i] != RECORD_FRAME_CUT);
}

static bool evaluates(const struct native *native, unsigned i)
{
	return address_of(native, i) >= native->ranges[0] &&
	       address_of(native, i) < native->ranges[1];
}

static bool is_of_interpreter(const struct native *native, unsigned i)
{
	return address_of(native, i) >= native->ranges[2] &&
	       address_of(native, i) < native->ranges[3];
}

/* Of how many calls of the evaluator more there is a frame than there are scripts of; negative:
 * there is not a frame for each. */
static int calls_beyond(const struct native *native, const struct rest *rest)
{
	int calls = 0, found = 0;

	for (unsigned i = 0; i < rest->n; i++)
		calls += (rest->frames[i] & SCRIPT_IS_ENTRY) != 0;
	for (unsigned i = 0; i < native->n; i++)
		found += evaluates(native, i);
	return found - calls;
}

/* The evaluator's own frames are replaced by those of the functions that it evaluates; the first
 * ones are not, which have just begun, or are about to end. */
static int merge(struct stacks *s, uint32_t process, const struct native *native, struct rest *rest,
		 int without, uint32_t *list, uint32_t *n)
{
	bool was_truncated = rest->is_truncated;
	int r = 0;

	for (unsigned i = 0; i < native->n && r >= 0; i++)
		if (evaluates(native, i) && without-- > 0)
			r = add(s, process, address_of(native, i), list, n);
		else if (evaluates(native, i) && (rest->at < rest->n || rest->is_truncated))
			r = add_scripts(s, rest, false, list, n);
		else if (!evaluates(native, i) || !was_truncated)
			r = add(s, process, address_of(native, i), list, n);
	return r;
}

/* The evaluator only begins what other functions go on with, each for an instruction of scripts, by
 * tail calls: an interpreter has hundreds. */
static bool is_split(const struct native *native)
{
	return native->ranges[1] - native->ranges[0] < WHOLE_EVALUATOR;
}

/*
 * An interpreter without frame pointers ends what can be followed: beyond the first frame in it
 * there is anything. The functions of the script are its callers. Where the evaluator is split,
 * that frame can be one of its parts: it is the script's function.
 */
static int put_inside(struct stacks *s, uint32_t process, const struct native *native,
		      uint32_t *list, uint32_t *n)
{
	int r = 0;

	for (unsigned i = 0; i < native->n && !evaluates(native, i) && r >= 0; i++) {
		bool is_last = is_of_interpreter(native, i);

		if (!is_last || !is_split(native))
			r = add(s, process, address_of(native, i), list, n);
		if (is_last)
			break;
	}
	return r;
}

int scripts_list(struct stacks *s, const struct record_stack *r, uint32_t *list, uint32_t *n)
{
	static const __u64 no_ranges[SCRIPT_RANGES];
	const __u64 *frames = (const void *)(r + 1);
	struct rest rest = { .frames = frames + r->n_user + r->n_kernel,
			     .n = SCRIPT_FRAMES(r->script),
			     .is_truncated = r->script & SCRIPT_TRUNCATED };
	struct native native = { .frames = frames,
				 .n = r->n_user,
				 .ranges = rest.n ? rest.frames + rest.n : no_ranges };
	int beyond = calls_beyond(&native, &rest), error;

	/* Of those that are not listed it is unknown which they are. */
	if (beyond > 0 && r->script & (SCRIPT_TRUNCATED | SCRIPT_UNREADABLE))
		beyond = 0;
	error = beyond < 0 ? put_inside(s, r->head.target, &native, list, n)
			   : merge(s, r->head.target, &native, &rest, rest.n ? beyond : 0, list, n);

	return error < 0 ? error : add_scripts(s, &rest, true, list, n);
}

static void warn(struct correlator *c)
{
	const struct scripts *scripts = &c->scripts;

	if (scripts->n_unreadable)
		correlator_fail(
			c,
			timeline_warn(
				c->t,
				"%llu of %llu samples in scripts have not all functions of the script: the interpreter's memory was not as expected.",
				(unsigned long long)scripts->n_unreadable,
				(unsigned long long)scripts->n_samples));
	if (scripts->n_unnamed)
		correlator_fail(
			c,
			timeline_warn(
				c->t,
				"Some functions of scripts have no name: there are more than a capture has room for, or their record was lost."));
}

void scripts_finish(struct correlator *c)
{
	struct stacks *s = &c->t->stacks;

	for (size_t i = 0; i < s->n_frames && !c->error; i++) {
		const uint64_t *named;
		bool is_mark;

		if (s->frames[i].process != STACK_SCRIPT)
			continue;
		named = map_get(&c->scripts.names, s->frames[i].address);
		is_mark = s->frames[i].address == TRUNCATED;
		if (named)
			s->frames[i].function = (uint32_t)*named;
		else
			correlator_fail(c, stacks_function(s, is_mark ? TRUNCATED_NAME : UNNAMED,
							   "", &s->frames[i].function));
		c->scripts.n_unnamed += !named && !is_mark;
	}
	warn(c);
}

void scripts_done(struct scripts *scripts)
{
	map_done(&scripts->names);
}
