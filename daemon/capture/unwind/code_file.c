/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/unwind/code_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/base/macro.h"
#include "lib/base/map.h"
#include "lib/base/search.h"
#include "lib/elf/unwind_rows.h"

/* At a time; more places of the file are asked for later. */
#define QUESTIONS_MAX 256
/* Places of one file; rows of all files, of 12 bytes each. */
#define ABSENT_MAX 65536
#define ALL_ROWS_MAX (8u << 20)

struct code_file {
	pid_t pid; /* that maps it there; 0: none that is known */
	struct target_file file;
	struct opened_file opened;
	bool is_open, is_asked;
	bool has_no_table; /* or it cannot be read */
	bool is_full;      /* there is no room for more */
	struct unwind_rows rows;
	/* Places that are asked for next, and those for which there is no row. */
	uint64_t questions[QUESTIONS_MAX], sent[QUESTIONS_MAX];
	size_t n_questions, n_sent;
	struct map absent;
};

int code_file_new(pid_t pid, const struct target_file *file, struct code_file **ret)
{
	struct code_file *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->pid = pid;
	f->file = *file;
	*ret = f;
	return 0;
}

static void close_file(struct code_file *f, struct proxy *proxy)
{
	if (f->is_open)
		target_file_close(proxy, &f->opened);
	f->is_open = f->is_asked = false;
}

struct code_file *code_file_free(struct code_file *f, struct proxy *proxy)
{
	if (!f)
		return NULL;
	close_file(f, proxy);
	unwind_rows_done(&f->rows);
	map_done(&f->absent);
	free(f);
	return NULL;
}

bool code_file_is(const struct code_file *f, uint64_t device, uint64_t inode)
{
	return f->file.device == device && f->file.inode == inode;
}

void code_file_set_process(struct code_file *f, pid_t pid, const struct target_file *file)
{
	if (f->is_open)
		return;
	f->pid = pid;
	f->file.start = file->start;
	f->file.end = file->end;
}

bool code_file_lacks_process(const struct code_file *f)
{
	return !f->pid;
}

bool code_file_has_questions(const struct code_file *f)
{
	return f->n_questions > 0 && f->pid && !f->is_asked;
}

bool code_file_is_asked(const struct code_file *f)
{
	return f->is_asked;
}

static void add_question(struct code_file *f, uint64_t offset)
{
	size_t i = SEARCH_FIRST(f->n_questions, k, f->questions[k] < offset);

	if ((i < f->n_questions && f->questions[i] == offset) || f->n_questions == QUESTIONS_MAX)
		return;
	memmove(&f->questions[i + 1], &f->questions[i],
		(f->n_questions - i) * sizeof(f->questions[0]));
	f->questions[i] = offset;
	f->n_questions++;
}

enum walk_code code_file_find(struct code_file *f, uint64_t offset, struct unwind_row *ret)
{
	const struct unwind_row *row;
	bool is_known;

	if (f->has_no_table)
		return WALK_NO_TABLE;
	row = unwind_rows_find(&f->rows, offset, &is_known);
	if (row) {
		*ret = *row;
		return WALK_ROW;
	}
	if (is_known || f->is_full || !f->pid || map_get(&f->absent, offset))
		return WALK_NO_ROW;
	if (!f->is_asked || !f->n_sent ||
	    SEARCH_FIRST(f->n_sent, k, f->sent[k] < offset) == f->n_sent ||
	    f->sent[SEARCH_FIRST(f->n_sent, k, f->sent[k] < offset)] != offset)
		add_question(f, offset);
	return WALK_LATER;
}

/* What was read before stays. */
static void fail(struct code_file *f, struct proxy *proxy, bool has_no_table)
{
	close_file(f, proxy);
	f->n_questions = f->n_sent = 0;
	f->has_no_table = has_no_table && !f->rows.n_functions;
	f->is_full = !f->has_no_table;
}

void code_file_ask(struct code_file *f, struct proxy *proxy)
{
	_cleanup_close_ int questions = memfd_create("tfprofd-places", MFD_CLOEXEC), answers = -1;
	struct broker_message m = { .type = BROKER_FUNCTIONS };
	unsigned n;
	int r = questions < 0 ? -errno : 0;

	if (r >= 0)
		r = unwind_rows_ask(questions, f->questions, f->n_questions);
	if (r >= 0)
		r = target_file_open(proxy, f->pid, &f->file, &f->opened);
	/* That process has ended, or does not map it there any more: another may. */
	if (r == -ESRCH || r == -EACCES || r == -ENOENT) {
		f->pid = 0;
		f->n_questions = 0;
		return;
	}
	if (r < 0) {
		fail(f, proxy, false);
		return;
	}
	f->is_open = true;
	m.id = f->opened.id;
	r = proxy_call_with(proxy, &m, questions, &answers, &n);
	if (r == -EBUSY) {
		close_file(f, proxy);
	} else if (r < 0 && r != -EINPROGRESS) {
		fail(f, proxy, false);
	} else {
		memcpy(f->sent, f->questions, sizeof(f->sent));
		f->n_sent = f->n_questions;
		f->n_questions = 0;
		f->is_asked = true;
	}
}

/* Puts both in order; a function that both have remains once. */
static int merge(struct unwind_rows *to, struct unwind_rows *from)
{
	uint64_t n_rows = (uint64_t)to->n_rows + from->n_rows;
	struct unwind_function *functions;
	struct unwind_row *rows;
	uint32_t a = 0, b = 0, n = 0;

	if (!to->n_functions) {
		unwind_rows_done(to);
		*to = *from;
		*from = (struct unwind_rows){};
		return 0;
	}
	if (n_rows > ALL_ROWS_MAX)
		return -E2BIG;
	functions = calloc((size_t)to->n_functions + from->n_functions + 1, sizeof(functions[0]));
	if (!functions)
		return -ENOMEM;
	rows = realloc(to->rows, (n_rows + 1) * sizeof(rows[0]));
	if (!rows) {
		free(functions);
		return -ENOMEM;
	}
	to->rows = rows;
	memcpy(rows + to->n_rows, from->rows, from->n_rows * sizeof(rows[0]));
	while (a < to->n_functions || b < from->n_functions) {
		struct unwind_function f;

		if (b == from->n_functions ||
		    (a < to->n_functions && to->functions[a].begin <= from->functions[b].begin)) {
			f = to->functions[a++];
		} else {
			f = from->functions[b++];
			f.first += to->n_rows;
		}
		if (!n || functions[n - 1].end <= f.begin)
			functions[n++] = f;
	}
	free(to->functions);
	to->functions = functions;
	to->n_functions = n;
	to->n_rows = (uint32_t)n_rows;
	return 0;
}

void code_file_take(struct code_file *f, struct proxy *proxy, uint64_t *n_rows)
{
	struct broker_message m = { .type = BROKER_FUNCTIONS, .id = f->opened.id };
	_cleanup_close_ int answers = -1;
	struct unwind_rows rows = {};
	uint32_t before = f->rows.n_rows;
	bool no_table;
	unsigned n;
	int r = proxy_call_with(proxy, &m, -1, &answers, &n);

	if (r == -EINPROGRESS)
		return;
	if (r >= 0)
		r = unwind_rows_read(answers, &rows);
	no_table = r >= 0 && !rows.has_table;
	if (no_table)
		r = -ENOENT;
	if (r >= 0 && *n_rows + rows.n_rows > ALL_ROWS_MAX)
		r = -E2BIG;
	if (r >= 0)
		r = merge(&f->rows, &rows);
	unwind_rows_done(&rows);
	if (r < 0) {
		fail(f, proxy, no_table);
		return;
	}
	close_file(f, proxy);
	*n_rows += f->rows.n_rows - before;
	for (size_t i = 0; i < f->n_sent; i++) {
		bool is_known;

		unwind_rows_find(&f->rows, f->sent[i], &is_known);
		if (!is_known &&
		    (f->absent.used >= ABSENT_MAX || map_put(&f->absent, f->sent[i], 1) < 0))
			f->is_full = true;
	}
	f->n_sent = 0;
}
