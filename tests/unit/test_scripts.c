/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of scripts in sampled stacks: where they go among the frames of native code. */
#include "daemon/correlate/sched/scripts.h"
#include "daemon/timeline/stacks.h"
#include "lib/base/macro.h"
#include "tests/unit/fed.h"

TEST_PACK(NULL, 0);

#define EVALUATOR 0x5000
#define EVALUATOR_END 0x6000
#define IN_EVALUATOR 0x5100
#define CODE 0x4000
#define CODE_END 0x8000
#define IN_CODE 0x4100

static struct {
	struct record_stack head;
	__u64 frames[255];
} record;

static uint64_t evaluator_end = EVALUATOR_END;

static void feed_stack(const uint64_t *user, unsigned n_user, const uint64_t *scripts,
		       unsigned n_scripts, unsigned flags)
{
	unsigned n = 0;

	memset(&record, 0, sizeof(record));
	for (unsigned i = 0; i < n_user; i++)
		record.frames[n++] = user[i];
	for (unsigned i = 0; i < n_scripts; i++)
		record.frames[n++] = scripts[i];
	if (n_scripts) {
		record.frames[n++] = EVALUATOR;
		record.frames[n++] = evaluator_end;
		record.frames[n++] = CODE;
		record.frames[n++] = CODE_END;
	}
	record.head.head = (struct record){
		.time = 2000, .tid = 5, .kind = RECORD_STACK, .size8 = (__u8)(3 + n)
	};
	record.head.n_user = (__u16)n_user;
	record.head.script = (__u16)(n_scripts | flags);
	CHECK_EQ(correlator_feed(c, &record.head.head), 0);
}

static struct record_script script(uint32_t number, const char *name, const char *file,
				   uint32_t line)
{
	struct record_script r = {
		.head = { .time = 2000, .tid = 5, .kind = RECORD_SCRIPT, .size8 = sizeof(r) / 8 },
		.number = number,
		.line = line,
		.name_size = (__u32)strlen(name),
		.file_size = (__u32)strlen(file)
	};

	strncpy(r.name, name, sizeof(r.name));
	strncpy(r.file, file, sizeof(r.file));
	return r;
}

static void feed_script(uint32_t number, const char *name, const char *file, uint32_t line)
{
	struct record_script r = script(number, name, file, line);

	CHECK_EQ(correlator_feed(c, &r.head), 0);
}

static void begin_scripts(void)
{
	begin_with(&pack);
	feed_script(1, "inner", "/srv/app.py", 10);
	feed_script(2, "outer", "/srv/app.py", 20);
	feed_script(3, "<module>", "/srv/main.py", 1);
}

/* The frames of the only sample: functions of scripts by name, others by address. */
static void check_frames(const struct timeline *t, const char *expected)
{
	const struct stacks *s = &t->stacks;
	char text[512] = "";

	CHECK_EQ(s->n_samples, 1);
	for (uint32_t i = 0; i < s->stacks[0].n; i++) {
		const struct stack_frame *f = &s->frames[s->lists[s->stacks[0].first + i]];
		size_t length = strlen(text);

		if (f->process == STACK_SCRIPT)
			snprintf(text + length, sizeof(text) - length, "%s ",
				 s->functions[f->function].name);
		else
			snprintf(text + length, sizeof(text) - length, "%llx ",
				 (unsigned long long)f->address);
	}
	CHECK_STR(text, expected);
}

TEST(functions_that_one_call_of_the_evaluator_evaluates_take_its_place)
{
	static const uint64_t user[] = { 0x1000, IN_EVALUATOR, 0x2001, IN_EVALUATOR, 0x3001 };
	static const uint64_t scripts[] = { 1 | SCRIPT_IS_ENTRY, 2, 3 | SCRIPT_IS_ENTRY };
	struct timeline *t;

	begin_scripts();
	feed_stack(user, 5, scripts, 3, 0);
	t = finish();
	check_frames(t, "1000 inner 2000 outer <module> 3000 ");
	CHECK_EQ(t->n_warnings, 0);
	timeline_free(t);
}

/* As nothing but a recording can have it. */
TEST(a_record_with_more_functions_than_there_can_be_is_no_sample)
{
	uint64_t scripts[RECORD_SCRIPT_FRAMES + 150];
	struct timeline *t;

	for (unsigned i = 0; i < ARRAY_SIZE(scripts); i++)
		scripts[i] = 1000 + i;
	begin_scripts();
	feed_stack(NULL, 0, scripts, ARRAY_SIZE(scripts), 0);
	t = finish();
	CHECK_EQ(t->stacks.n_samples, 0);
	timeline_free(t);
}

TEST(functions_are_the_callers_of_what_could_be_followed)
{
	static const uint64_t user[] = { 0x1000 };
	static const uint64_t scripts[] = { 1, 3 | SCRIPT_IS_ENTRY };
	struct timeline *t;

	begin_scripts();
	feed_stack(user, 1, scripts, 2, 0);
	t = finish();
	check_frames(t, "1000 inner <module> ");
	timeline_free(t);
	begin_scripts();
	feed_stack(NULL, 0, scripts, 2, 0);
	t = finish();
	check_frames(t, "inner <module> ");
	timeline_free(t);
}

TEST(beyond_an_interpreter_that_cannot_be_followed_there_are_only_functions)
{
	static const uint64_t user[] = { 0x1000, IN_CODE, 0x2001, IN_EVALUATOR, 0x3001 };
	static const uint64_t scripts[] = { 1 | SCRIPT_IS_ENTRY, 3 | SCRIPT_IS_ENTRY };
	struct timeline *t;

	begin_scripts();
	feed_stack(user, 5, scripts, 2, 0);
	t = finish();
	check_frames(t, "1000 40ff inner <module> ");
	timeline_free(t);
	begin_scripts();
	feed_stack(user + 3, 2, scripts, 2, 0);
	t = finish();
	check_frames(t, "inner <module> ");
	timeline_free(t);
}

TEST(a_part_of_a_split_evaluator_is_the_function_that_it_evaluates)
{
	static const uint64_t user[] = { 0x1000, IN_CODE, 0x2001, 0x3001 };
	static const uint64_t scripts[] = { 1, 2, 3 | SCRIPT_IS_ENTRY };
	struct timeline *t;

	evaluator_end = EVALUATOR + 300;
	begin_scripts();
	feed_stack(user, 4, scripts, 3, 0);
	t = finish();
	check_frames(t, "1000 inner outer <module> ");
	timeline_free(t);
	begin_scripts();
	feed_stack(user + 1, 3, scripts, 3, 0);
	t = finish();
	evaluator_end = EVALUATOR_END;
	check_frames(t, "inner outer <module> ");
	timeline_free(t);
}

TEST(missing_functions_have_one_frame_that_stands_for_them)
{
	static const uint64_t user[] = { IN_EVALUATOR, 0x2001, IN_EVALUATOR, 0x3001, IN_EVALUATOR };
	static const uint64_t scripts[] = { 1 | SCRIPT_IS_ENTRY, 2 };
	struct timeline *t;

	begin_scripts();
	feed_stack(user, 5, scripts, 2, SCRIPT_TRUNCATED);
	t = finish();
	check_frames(t, "inner 2000 outer [more functions of the script] 3000 ");
	timeline_free(t);
}

TEST(what_could_not_be_read_keeps_the_evaluator_and_is_counted)
{
	static const uint64_t user[] = { IN_EVALUATOR, 0x2001, IN_EVALUATOR };
	static const uint64_t scripts[] = { 1 | SCRIPT_IS_ENTRY };
	struct timeline *t;

	begin_scripts();
	feed_stack(user, 3, scripts, 1, SCRIPT_UNREADABLE);
	t = finish();
	check_frames(t, "inner 2000 50ff ");
	CHECK_EQ(t->n_warnings, 1);
	CHECK(strstr(t->warnings[0], "1 of 1 samples"));
	timeline_free(t);
}

TEST(a_function_has_its_file_and_line_and_one_without_a_name_is_reported)
{
	static const uint64_t scripts[] = { 1, 9 | SCRIPT_IS_ENTRY };
	const struct stack_function *f;
	struct timeline *t;

	begin_scripts();
	feed_stack(NULL, 0, scripts, 2, 0);
	t = finish();
	check_frames(t, "inner [function of a script] ");
	f = stack_function_at(&t->stacks, &t->stacks.stacks[0], 0);
	CHECK_STR(f->file, "app.py:10");
	CHECK_EQ(f->line, 10);
	CHECK_EQ(t->n_warnings, 1);
	timeline_free(t);
}

TEST(of_long_texts_the_end_is_kept_and_others_are_no_names)
{
	struct record_script r = script(1, "", "", 7);
	static const uint64_t scripts[] = { 1 | SCRIPT_IS_ENTRY };
	const struct stack_function *f;
	struct timeline *t;

	begin_with(&pack);
	memset(r.name, 'x', sizeof(r.name));
	r.name_size = 5000;
	r.file_size = SCRIPT_NOT_ASCII;
	CHECK_EQ(correlator_feed(c, &r.head), 0);
	feed_stack(NULL, 0, scripts, 1, 0);
	t = finish();
	f = stack_function_at(&t->stacks, &t->stacks.stacks[0], 0);
	CHECK_EQ(strlen(f->name), RECORD_SCRIPT_TEXT + 3);
	CHECK(!strncmp(f->name, "...xxx", 6));
	CHECK_STR(f->file, "[name that is not ASCII]:7");
	timeline_free(t);
}

TEST(a_record_with_more_scripts_than_bytes_is_ignored)
{
	static const uint64_t scripts[] = { 1 | SCRIPT_IS_ENTRY };
	struct timeline *t;

	begin_scripts();
	feed_stack(NULL, 0, scripts, 1, 0);
	record.head.script = 2;
	CHECK_EQ(correlator_feed(c, &record.head.head), 0);
	record.head.script = 0xff;
	CHECK_EQ(correlator_feed(c, &record.head.head), 0);
	t = finish();
	CHECK_EQ(t->stacks.n_samples, 1);
	timeline_free(t);
}

CHECK_MAIN()
