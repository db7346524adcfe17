/* SPDX-License-Identifier: Apache-2.0 */
/* Unwind rows of real files: as readelf reads them, and as every instruction of real code needs
 * them. */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "daemon/capture/unwind/walk.h"
#include "lib/base/macro.h"
#include "lib/elf/unwind_rows.h"
#include "lib/proc/maps.h"
#include "tests/unit/check.h"

#define FRAMES_MAX 96
#define STACK_BYTES 8192
#define BELOW 128
#define STEPS_MAX 30000
#define TRAP_FLAG 0x100

static int new_file(const void *bytes, size_t size)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	CHECK_EQ(pwrite(fd, bytes, size, 0), (ssize_t)size);
	return fd;
}

static int read_rows(const char *path, uint64_t offset, struct unwind_rows *ret)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC),
			    questions = memfd_create("test", MFD_CLOEXEC),
			    answers = memfd_create("test", MFD_CLOEXEC);
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	const char *reason;
	int r = elf_image_open(fd, &image, &reason);

	if (r >= 0)
		r = unwind_rows_ask(questions, &offset, 1);
	if (r >= 0)
		r = unwind_rows_answer(questions, image, answers, &reason);
	return r < 0 ? r : unwind_rows_read(answers, ret);
}

/* A row as readelf prints it: the CFA, and where rbp is. */
static void describe(const struct unwind_row *row, char cfa[16], char rbp[16])
{
	static const char *const bases[] = { [UNWIND_RSP] = "rsp", [UNWIND_RBP] = "rbp" };

	if (row->cfa == UNWIND_RSP || row->cfa == UNWIND_RBP)
		snprintf(cfa, 16, "%s%+d", bases[row->cfa], row->cfa_offset);
	else
		strcpy(cfa, "exp");
	strcpy(rbp, "u");
	if (row->rbp == UNWIND_RBP_AT_CFA)
		snprintf(rbp, 16, "c%+d", row->rbp_offset8 * 8);
	else if (row->rbp == UNWIND_RBP_AT_RBP)
		strcpy(rbp, "exp");
}

/* The column of a register, by the head of a table; -1: there is none. */
static int find_column(char *head, const char *name)
{
	int i = 0;

	for (char *save, *word = strtok_r(head, " \n", &save); word;
	     word = strtok_r(NULL, " \n", &save), i++)
		if (!strcmp(word, name))
			return i;
	return -1;
}

struct comparison {
	const struct elf_image *image;
	struct unwind_rows rows;
	unsigned equal, different, unfollowed;
};

static void compare_row(struct comparison *c, char *line, int rbp_column)
{
	char *words[32] = {}, *save, cfa[16], rbp[16];
	const struct unwind_row *row;
	const char *wanted;
	uint64_t offset;
	bool is_known;
	int n = 0;

	for (char *word = strtok_r(line, " \n", &save); word && n < 32;
	     word = strtok_r(NULL, " \n", &save))
		/* Names of registers that another one is in. */
		if (*word != '(')
			words[n++] = word;
	if (n < 2 || elf_image_code_offset(c->image, strtoull(words[0], NULL, 16), &offset) < 0)
		return;
	row = unwind_rows_find(&c->rows, offset, &is_known);
	if (!row || row->cfa == UNWIND_UNKNOWN || row->cfa == UNWIND_OUTERMOST ||
	    row->rbp == UNWIND_RBP_LOST) {
		c->unfollowed++;
		return;
	}
	describe(row, cfa, rbp);
	wanted = rbp_column > 0 && rbp_column < n ? words[rbp_column] : "u";
	if (strcmp(cfa, words[1]) != 0 || (strcmp(rbp, wanted) != 0 && row->cfa != UNWIND_SIGNAL)) {
		if (c->different++ < 4)
			fprintf(stderr, "  at %s: %s %s, not %s %s\n", words[0], cfa, rbp, words[1],
				wanted);
	} else {
		c->equal++;
	}
}

static void compare_with_readelf(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_image *image = NULL;
	struct comparison c = {};
	char file[PATH_MAX] = "", command[PATH_MAX + 64], line[1024];
	int column = -1;
	FILE *f;

	CHECK(realpath(path, file));
	snprintf(command, sizeof(command),
		 "LC_ALL=C readelf --debug-dump=frames-interp '%s' 2>/dev/null", file);
	CHECK_EQ(elf_image_open(fd, &image, NULL), 0);
	CHECK_EQ(read_rows(path, 0, &c.rows), 0);
	c.image = image;
	f = popen(command, "r");
	while (f && fgets(line, sizeof(line), f)) {
		bool is_row = strspn(line, "0123456789abcdef") == 16;

		if (strstr(line, " LOC "))
			column = find_column(line, "rbp");
		else if (is_row && !strstr(line, " CIE ") && !strstr(line, " FDE ") &&
			 strncmp(line, "0000000000000000", 16) != 0)
			compare_row(&c, line, column);
	}
	CHECK(f);
	if (f)
		pclose(f);
	CHECK(c.equal > 300);
	CHECK_EQ(c.different, 0);
	CHECK(c.unfollowed < c.equal / 50);
	unwind_rows_done(&c.rows);
	elf_image_free(image);
}

TEST(rows_of_this_program_and_of_the_c_library_are_those_that_readelf_shows)
{
	Dl_info info;

	compare_with_readelf("/proc/self/exe");
	CHECK(dladdr((void *)(uintptr_t)&qsort, &info));
	compare_with_readelf(info.dli_fname);
}

static void call_library(void);

/* Files with code of this process. */
static struct {
	uint64_t start, end, offset;
	struct unwind_rows rows;
} code[64];
static unsigned n_code;
static uint64_t stack_end;

static int on_mapping(const struct maps_entry *e, void *data)
{
	if (!strcmp(e->path, "[stack]"))
		stack_end = e->end;
	if (!e->executable || !e->inode || n_code == ARRAY_SIZE(code))
		return 0;
	code[n_code].start = e->start;
	code[n_code].end = e->end;
	code[n_code].offset = e->offset;
	n_code += read_rows(e->path, e->offset, &code[n_code].rows) >= 0;
	return 0;
}

static enum walk_code find_row(uint64_t address, struct unwind_row *ret, void *data)
{
	for (unsigned i = 0; i < n_code; i++)
		if (address >= code[i].start && address < code[i].end) {
			bool is_known;
			const struct unwind_row *row = unwind_rows_find(
				&code[i].rows, address - code[i].start + code[i].offset, &is_known);

			if (row)
				*ret = *row;
			return row ? WALK_ROW : WALK_NO_ROW;
		}
	return WALK_NO_CODE;
}

/* What calls and returns did since stepping began, by the stack pointer before and after each. */
static struct {
	uint64_t returns[FRAMES_MAX], base[FRAMES_MAX];
	unsigned n, n_base;
	uint64_t ip, sp, top;
	unsigned steps, in_library, wrong;
	bool stop;
} shadow;

__attribute__((no_sanitize("address", "undefined"))) static void copy_stack(uint64_t sp,
									    uint64_t *words,
									    size_t n)
{
	for (size_t i = 0; i < n; i++)
		words[i] = ((volatile uint64_t *)(uintptr_t)sp)[i];
}

static void check_walk(uint64_t ip, uint64_t sp, uint64_t bp, const uint64_t *stack, size_t size)
{
	struct walk walk = { .ip = ip,
			     .sp = sp,
			     .bp = bp,
			     .start = sp - BELOW,
			     .stack = (const uint8_t *)stack,
			     .size = size,
			     .code = find_row };
	uint64_t frames[FRAMES_MAX];
	bool whole, same;
	int n = walk_stack(&walk, frames, FRAMES_MAX, &whole);

	same = whole && n == (int)(1 + shadow.n + shadow.n_base) && frames[0] == ip;
	for (unsigned i = 0; i < shadow.n && same; i++)
		same = frames[1 + i] == shadow.returns[shadow.n - 1 - i];
	for (unsigned i = 0; i < shadow.n_base && same; i++)
		same = frames[1 + shadow.n + i] == shadow.base[i];
	shadow.wrong += !same;
}

static void on_step(int number, siginfo_t *info, void *context)
{
	static uint64_t stack[STACK_BYTES / 8];
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t ip = (uint64_t)r[REG_RIP], sp = (uint64_t)r[REG_RSP];
	size_t size = MIN(stack_end - sp + BELOW, sizeof(stack)) & ~7ul;

	copy_stack(sp - BELOW, stack, size / 8);
	if (shadow.steps) {
		bool called = sp == shadow.sp - 8 && stack[BELOW / 8] > shadow.ip &&
			      stack[BELOW / 8] - shadow.ip < 16 && ip != stack[BELOW / 8] &&
			      !(ip > shadow.ip && ip - shadow.ip < 16);

		if (called && shadow.n < FRAMES_MAX)
			shadow.returns[shadow.n++] = stack[BELOW / 8];
		else if (sp == shadow.sp + 8 && shadow.n && ip == shadow.returns[shadow.n - 1] &&
			 ip == shadow.top)
			shadow.n--;
	}
	check_walk(ip, sp, (uint64_t)r[REG_RBP], stack, size);
	shadow.in_library += shadow.n > 1;
	shadow.ip = ip;
	shadow.sp = sp;
	shadow.top = stack[BELOW / 8];
	if (++shadow.steps == STEPS_MAX || shadow.stop)
		r[REG_EFL] &= ~TRAP_FLAG;
}

static int compare_words(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

__attribute__((noinline)) static void call_library(void)
{
	const char *words[] = { "c", "a", "f", "b", "e", "d" };
	char text[200];

	qsort(words, ARRAY_SIZE(words), sizeof(words[0]), compare_words);
	snprintf(text, sizeof(text), "%s %d %.3f %40s", words[0], 12345, 3.25, "end");
	CHECK(strstr(text, "12345"));
}

__attribute__((noinline)) static void step_through(void (*function)(void))
{
	void *callers[FRAMES_MAX];
	int n = backtrace(callers, FRAMES_MAX), first = 0;

	/* Sanitizers have functions of their own before it. */
	while (first < n && callers[first] != __builtin_return_address(0))
		first++;
	for (int i = first; i < n; i++)
		shadow.base[shadow.n_base++] = (uint64_t)(uintptr_t)callers[i];
	__asm__ __volatile__("pushfq; orq %0, (%%rsp); popfq; nop"
			     :
			     : "i"(TRAP_FLAG)
			     : "memory", "cc");
	function();
	shadow.stop = true;
	__asm__ __volatile__("nop; nop");
}

TEST(callers_are_found_at_every_instruction)
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	_cleanup_close_ int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	/* What is bound or initialized by the first call would be stepped through, too. */
	call_library();
	CHECK_EQ(maps_read(maps, on_mapping, NULL), 0);
	sigaction(SIGTRAP, &action, NULL);
	step_through(call_library);
	signal(SIGTRAP, SIG_DFL);
	fprintf(stderr, "  %u instructions, %u of them in libraries, %u wrong\n", shadow.steps,
		shadow.in_library, shadow.wrong);
	CHECK(shadow.steps > 1000);
	CHECK(shadow.in_library > 500);
	CHECK_EQ(shadow.wrong, 0);
	for (unsigned i = 0; i < n_code; i++)
		unwind_rows_done(&code[i].rows);
}

TEST(questions_of_odd_size_are_refused)
{
	static const uint64_t words[] = { UINT64_MAX, 5, 1 };
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
			    answers = memfd_create("test", MFD_CLOEXEC);
	static const size_t sizes[] = { 0, 7, 8, 15, 17 };
	const char *reason = NULL;

	CHECK_EQ(elf_image_open(fd, &image, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		_cleanup_close_ int questions = new_file(words, sizes[i]);

		CHECK_EQ(unwind_rows_answer(questions, image, answers, &reason), -EINVAL);
	}
}

struct answer {
	uint32_t has_table, n_functions, n_rows, reserved;
	struct unwind_function functions[2];
	struct unwind_row rows[3];
};

static int read_answer(const struct answer *a, size_t size)
{
	_cleanup_close_ int fd = new_file(a, size);
	struct unwind_rows rows = {};
	int r = unwind_rows_read(fd, &rows);

	unwind_rows_done(&rows);
	return r;
}

TEST(answers_are_rows_in_order_or_refused)
{
	const struct answer good = {
		.has_table = 1,
		.n_functions = 2,
		.n_rows = 3,
		.functions = { { 16, 32, 0, 2 }, { 32, 48, 2, 1 } },
		.rows = { { 16, 8, 0, UNWIND_RSP, 0 },
			  { 17, 16, -2, UNWIND_RSP, UNWIND_RBP_AT_CFA },
			  { 32, 8, 0, UNWIND_RSP, 0 } },
	};
	struct answer bad;

	CHECK_EQ(read_answer(&good, sizeof(good)), 0);
	CHECK_EQ(read_answer(&good, sizeof(good) - 1), -EBADMSG);
	CHECK_EQ(read_answer(&good, 8), -EBADMSG);
#define REFUSED(change)                                                                            \
	bad = good;                                                                                \
	bad.change;                                                                                \
	CHECK_EQ(read_answer(&bad, sizeof(bad)), -EBADMSG)
	REFUSED(n_functions = 3);
	REFUSED(n_rows = UINT32_MAX);
	REFUSED(functions[1].begin = 31);
	REFUSED(functions[1].end = 32);
	REFUSED(functions[1].first = 4);
	REFUSED(functions[1].n = 2);
	REFUSED(rows[0].begin = 15);
	REFUSED(rows[1].begin = 16);
	REFUSED(rows[2].cfa = UNWIND_CFAS);
	REFUSED(rows[2].rbp = UNWIND_RBPS);
}

CHECK_MAIN()
