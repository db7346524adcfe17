/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/stacks/folded.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/export/stacks/single.h"
#include "lib/base/macro.h"

/* A stack of threads with this name. */
struct line {
	const char *thread;
	uint32_t stack;
	uint64_t count;
};

static int compare_lines(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	int r = strcmp(x->thread, y->thread);

	return r ? r : x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* Sorts them, and counts equal ones; returns how many differ. */
static size_t merge(struct line *lines, size_t n)
{
	size_t kept = 0;

	if (n)
		qsort(lines, n, sizeof(lines[0]), compare_lines);
	for (size_t i = 0; i < n; i++)
		if (kept && compare_lines(&lines[kept - 1], &lines[i]) == 0)
			lines[kept - 1].count += lines[i].count;
		else
			lines[kept++] = lines[i];
	return kept;
}

/* A semicolon separates frames, and a line ends a stack. */
static void write_name(FILE *f, const char *name)
{
	for (; *name; name++)
		fputc(*name == ';' ? ':' : *name >= 0 && *name < ' ' ? '?' : *name, f);
}

static void write_line(FILE *f, const struct stacks *s, const struct line *line)
{
	const struct stack *stack = &s->stacks[line->stack];

	write_name(f, line->thread);
	for (uint32_t i = stack->n; i-- > 0;) {
		const struct stack_function *function = stack_function_at(s, stack, i);

		fputc(';', f);
		write_name(f, function->name);
		if (!strcmp(function->file, STACK_KERNEL_FILE))
			fputs("_[k]", f);
		/* Scripts have many functions of one name. */
		if (function->line) {
			fputs(" (", f);
			write_name(f, function->file);
			fputc(')', f);
		}
	}
	fprintf(f, " %llu\n", (unsigned long long)line->count);
}

static int make(const struct timeline *t, const struct export_options *options,
		struct exported *ret)
{
	const struct stacks *s = &t->stacks;
	_cleanup_free_ struct line *lines = malloc((s->n_samples + 1) * sizeof(lines[0]));
	size_t n = s->n_samples, size = 0;
	char *text = NULL;
	FILE *f;

	if (!lines)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		lines[i] = (struct line){ .thread = t->threads[s->samples[i].thread].name,
					  .stack = s->samples[i].stack,
					  .count = 1 };
	n = merge(lines, n);
	f = open_memstream(&text, &size);
	if (!f)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		write_line(f, s, &lines[i]);
	return single_text(f, &text, &size, options->max_bytes, s->n_samples, ret);
}

const struct exporter folded_exporter = { .name = "folded", .make = make };
