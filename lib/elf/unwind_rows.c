/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/elf/unwind_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/macro.h"
#include "lib/base/search.h"
#include "lib/elf/cfa_program.h"
#include "lib/elf/unwind.h"
#include "lib/elf/unwind_bytes.h"

/* The first word of the questions; no offset in a file. */
#define QUESTION UINT64_MAX
/* The neighbors of a place, before and after it. A file with fewer functions is read as a whole. */
#define NEIGHBORS 64
#define WHOLE_FUNCTIONS 24576
/* Of one function; compilers write some dozens. */
#define FUNCTION_ROWS_MAX 2048
#define RECORD_BYTES_MAX (64u << 10)
/* Neighbors in the table are neighbors in .eh_frame, mostly. */
#define WINDOW_BYTES (64u << 10)
/* Compilers write a few different ones. */
#define CIES 64
/* Of a linkage table. */
#define SLOT_BYTES 16

struct answer_head {
	uint32_t has_table, n_functions, n_rows, reserved;
};

/* Bytes of the image that were read last. */
struct window {
	const struct elf_image *image;
	uint64_t address;
	size_t size;
	uint8_t bytes[WINDOW_BYTES];
};

struct cie {
	uint64_t address;
	struct cfa_program program;
	uint8_t encoding;
	bool has_augmentation; /* FDEs have, too */
	uint8_t bytes[512];
};

struct making {
	const struct elf_image *image;
	uint64_t table;
	uint32_t n_entries;
	struct unwind_rows rows;
	struct window window, cie_window;
	struct cie cies[CIES]; /* by address */
};

void unwind_rows_done(struct unwind_rows *rows)
{
	free(rows->functions);
	free(rows->rows);
	*rows = (struct unwind_rows){};
}

static int write_all(int fd, const void *bytes, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t r = write(fd, (const char *)bytes + done, size - done);

		if (r < 0)
			return -errno;
		done += (size_t)r;
	}
	return 0;
}

int unwind_rows_ask(int questions, const uint64_t *offsets, size_t n)
{
	const uint64_t head = QUESTION;
	int r = write_all(questions, &head, sizeof(head));

	return r < 0 ? r : write_all(questions, offsets, n * sizeof(offsets[0]));
}

bool unwind_rows_are_asked(int questions)
{
	uint64_t head;

	return pread(questions, &head, sizeof(head), 0) == sizeof(head) && head == QUESTION;
}

static int read_questions(int questions, uint64_t **ret, size_t *ret_n)
{
	uint64_t *offsets;
	struct stat st;
	size_t n;

	if (fstat(questions, &st) < 0)
		return -errno;
	n = (size_t)st.st_size / sizeof(offsets[0]) - 1;
	if (st.st_size < 16 || (size_t)st.st_size % sizeof(offsets[0]) || n > UNWIND_PLACES_MAX ||
	    !unwind_rows_are_asked(questions))
		return -EINVAL;
	offsets = calloc(n, sizeof(offsets[0]));
	if (!offsets)
		return -ENOMEM;
	if (pread(questions, offsets, n * sizeof(offsets[0]), sizeof(offsets[0])) !=
	    (ssize_t)(n * sizeof(offsets[0]))) {
		free(offsets);
		return -EINVAL;
	}
	*ret = offsets;
	*ret_n = n;
	return 0;
}

/* size bytes, or as many as the image has there, at least 8; valid until the next call. */
static int look(struct window *w, uint64_t address, size_t size, struct cursor *ret)
{
	uint64_t offset, room;
	int r;

	if (elf_image_locate(w->image, address, &offset, &room) < 0 || room < 8)
		return -EBADMSG;
	size = MIN(size, room);
	if (address < w->address || address - w->address > w->size ||
	    w->size - (address - w->address) < size) {
		w->size = 0;
		r = elf_image_read(w->image, offset, w->bytes, MIN(room, sizeof(w->bytes)));
		if (r < 0)
			return r;
		w->address = address;
		w->size = MIN(room, sizeof(w->bytes));
	}
	ret->at = w->bytes + (address - w->address);
	ret->end = ret->at + size;
	return 0;
}

/* A record of .eh_frame, from its second word on. */
static int look_at_record(struct window *w, uint64_t address, uint32_t *ret_id, struct cursor *ret)
{
	uint32_t head[2];
	int r = look(w, address, RECORD_BYTES_MAX, ret);

	if (r < 0)
		return r;
	memcpy(head, ret->at, sizeof(head));
	if (head[0] < 4 || head[0] > (size_t)(ret->end - ret->at) - 4)
		return -EBADMSG;
	*ret_id = head[1];
	*ret = (struct cursor){ ret->at + 8, ret->at + 4 + head[0] };
	return 0;
}

static int parse_augmentation(struct cie *cie, const char *augmentation, struct cursor c)
{
	for (const char *a = augmentation + 1; *a; a++) {
		if (*a == 'S') {
			cie->program.is_signal = true;
		} else if (*a == 'R' && c.at < c.end) {
			cie->encoding = *c.at++;
		} else if (*a == 'L' && c.at < c.end) {
			c.at++;
		} else if (*a == 'P' && c.at < c.end && encoding_size(*c.at) &&
			   (size_t)(c.end - c.at) > encoding_size(*c.at)) {
			c.at += 1 + encoding_size(*c.at);
		} else if (*a != 'B') {
			return -EOPNOTSUPP;
		}
	}
	return 0;
}

static int parse_cie(struct cie *cie, struct cursor c)
{
	struct cfa_program *p = &cie->program;
	const char *augmentation = (const char *)c.at + 1;
	size_t room = (size_t)(c.end - c.at), length;
	uint64_t size;
	int r = 0;

	if (room < 2 || (*c.at != 1 && *c.at != 3))
		return -EOPNOTSUPP;
	length = strnlen(augmentation, room - 1);
	if (length == room - 1)
		return -EBADMSG;
	if (length && *augmentation != 'z')
		return -EOPNOTSUPP;
	c.at += 1 + length + 1;
	if (!cursor_uleb128(&c, &p->code_alignment) || !cursor_sleb128(&c, &p->data_alignment) ||
	    !cursor_uleb128(&c, &p->return_register))
		return -EBADMSG;
	cie->has_augmentation = length > 0;
	if (length) {
		if (!cursor_uleb128(&c, &size) || size > (uint64_t)(c.end - c.at))
			return -EBADMSG;
		r = parse_augmentation(cie, augmentation,
				       (struct cursor){ c.at, c.at + (size_t)size });
		c.at += size;
	}
	p->initial = c.at;
	p->initial_size = (size_t)(c.end - c.at);
	return p->code_alignment == 1 ? r : -EOPNOTSUPP;
}

static int read_cie(struct making *m, uint64_t address, const struct cie **ret)
{
	struct cie *cie = &m->cies[(address / 4 ^ address / 256) % CIES];
	struct cursor c;
	uint32_t id;
	int r;

	*ret = cie;
	if (cie->address == address)
		return 0;
	*cie = (struct cie){};
	r = look_at_record(&m->cie_window, address, &id, &c);
	if (r < 0)
		return r;
	if (id != 0 || (size_t)(c.end - c.at) > sizeof(cie->bytes))
		return -EOPNOTSUPP;
	memcpy(cie->bytes, c.at, (size_t)(c.end - c.at));
	r = parse_cie(cie, (struct cursor){ cie->bytes, cie->bytes + (c.end - c.at) });
	if (r >= 0)
		cie->address = address;
	return r;
}

/* Takes the address and the size of the code from the beginning of an FDE, which is at that
 * address. */
static int take_bounds(const struct cie *cie, uint64_t address, struct cursor *c,
		       uint64_t *ret_start, uint64_t *ret_size)
{
	size_t width = encoding_size(cie->encoding);
	uint64_t skipped;

	if (!width || cie->encoding & 0x80 ||
	    (RELATION(cie->encoding) && RELATION(cie->encoding) != ENCODING_PC_RELATIVE))
		return -EOPNOTSUPP;
	if ((size_t)(c->end - c->at) < 2 * width)
		return -EBADMSG;
	*ret_start = encoding_decode(cie->encoding, c->at);
	if (RELATION(cie->encoding) == ENCODING_PC_RELATIVE)
		*ret_start += address + 8;
	*ret_size = encoding_decode(cie->encoding, c->at + width);
	c->at += 2 * width;
	if (cie->has_augmentation) {
		if (!cursor_uleb128(c, &skipped) || skipped > (uint64_t)(c->end - c->at))
			return -EBADMSG;
		c->at += skipped;
	}
	return 0;
}

/* Adds the function of an FDE. An error: the file is not read further; a function that is not
 * understood has no rows. */
static int add_function(struct making *m, uint64_t address)
{
	struct unwind_rows *rows = &m->rows;
	struct unwind_function *f = &rows->functions[rows->n_functions];
	uint64_t start, size, offset;
	const struct cie *cie;
	struct cfa_program p;
	struct cursor c;
	uint32_t id;
	int r = look_at_record(&m->window, address, &id, &c);

	if (r < 0)
		return r;
	if (!id || id > address + 4)
		return -EBADMSG;
	r = read_cie(m, address + 4 - id, &cie);
	if (r >= 0)
		r = take_bounds(cie, address, &c, &start, &size);
	if (r < 0)
		return r == -EOPNOTSUPP ? 0 : r;
	if (!size || elf_image_code_offset(m->image, start, &offset) < 0 ||
	    !elf_image_is_code(m->image, offset, size) || offset + size > UINT32_MAX ||
	    (rows->n_functions && f[-1].end > offset))
		return 0;
	p = cie->program;
	p.own = c.at;
	p.own_size = (size_t)(c.end - c.at);
	p.begin = (uint32_t)offset;
	p.size = (uint32_t)size;
	r = cfa_program_run(&p, rows->rows + rows->n_rows,
			    MIN(UNWIND_ROWS_MAX - rows->n_rows, (uint32_t)FUNCTION_ROWS_MAX));
	*f = (struct unwind_function){ .begin = p.begin,
				       .end = p.begin + p.size,
				       .first = rows->n_rows,
				       .n = r > 0 ? (uint32_t)r : 0 };
	rows->n_functions++;
	rows->n_rows += f->n;
	return 0;
}

static int add_entries(struct making *m, uint32_t from, uint32_t to)
{
	int r = 0;

	for (uint32_t i = from; i < to && r >= 0; i++) {
		struct unwind_entry entry;

		if (m->rows.n_functions == UNWIND_FUNCTIONS_MAX ||
		    m->rows.n_rows == UNWIND_ROWS_MAX)
			return 0;
		r = elf_unwind_entry(m->image, m->table, i, &entry);
		if (r >= 0)
			r = add_function(m, m->table + (uint64_t)(int64_t)entry.fde);
		/* The others may be good. */
		r = r == -EBADMSG ? 0 : r;
	}
	return r;
}

/* The virtual address of code at an offset in the file. */
static bool address_of(const struct elf_image *image, uint64_t offset, uint64_t *ret)
{
	const Elf64_Phdr *s;

	for (size_t i = 0; (s = elf_image_segment(image, i)); i++)
		if (s->p_type == PT_LOAD && s->p_flags & PF_X && offset >= s->p_offset &&
		    offset - s->p_offset < s->p_filesz) {
			*ret = s->p_vaddr + (offset - s->p_offset);
			return true;
		}
	return false;
}

static int make_rows(struct making *m, const uint64_t *offsets, size_t n)
{
	uint32_t done = 0;
	int r = 0;

	if (m->n_entries <= WHOLE_FUNCTIONS)
		return add_entries(m, 0, m->n_entries);
	for (size_t i = 0; i < n && r >= 0; i++) {
		uint32_t at, from, to;
		uint64_t address;

		if (!address_of(m->image, offsets[i], &address))
			continue;
		r = elf_unwind_search(m->image, m->table, m->n_entries, address, &at);
		if (r == -ENOENT)
			at = 0;
		else if (r < 0)
			return r;
		from = MAX(at - MIN(at, (uint32_t)NEIGHBORS), done);
		to = MIN(at + NEIGHBORS, m->n_entries);
		r = add_entries(m, from, to);
		done = MAX(done, to);
	}
	return r;
}

/* Adds a function, in order; false: there is no room, or another one is there. */
static bool insert_function(struct unwind_rows *rows, uint64_t begin, uint64_t size,
			    const struct unwind_row *list, uint32_t n)
{
	size_t i = SEARCH_FIRST(rows->n_functions, k, rows->functions[k].end <= begin);
	struct unwind_function *f = &rows->functions[i];

	if (!size || begin + size > UINT32_MAX || rows->n_functions == UNWIND_FUNCTIONS_MAX ||
	    n > UNWIND_ROWS_MAX - rows->n_rows ||
	    (i < rows->n_functions && f->begin < begin + size))
		return false;
	memmove(f + 1, f, (rows->n_functions - i) * sizeof(*f));
	*f = (struct unwind_function){ .begin = (uint32_t)begin,
				       .end = (uint32_t)(begin + size),
				       .first = rows->n_rows,
				       .n = n };
	memcpy(&rows->rows[rows->n_rows], list, n * sizeof(list[0]));
	rows->n_functions++;
	rows->n_rows += n;
	return true;
}

/* The linkage table of a linker that describes it by no entry, as lld does: its first slot pushes a
 * word and jumps, the others jump, or push a word and jump to the first. */
static void add_linkage(struct making *m)
{
	static const uint8_t jump[] = { 0xff, 0x25 }, landing[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x68 };
	const Elf64_Shdr *plt = elf_image_find_named(m->image, SHT_PROGBITS, ".plt");
	struct unwind_row rows[3] = {};
	uint8_t slot[sizeof(landing)];
	uint64_t begin;

	if (!plt || plt->sh_size <= SLOT_BYTES ||
	    elf_image_code_offset(m->image, plt->sh_addr, &begin) < 0 ||
	    !elf_image_is_code(m->image, begin, plt->sh_size) ||
	    begin + plt->sh_size > UINT32_MAX ||
	    elf_image_read(m->image, begin + SLOT_BYTES, slot, sizeof(slot)) < 0)
		return;
	rows[0] = (struct unwind_row){ .begin = (uint32_t)begin,
				       .cfa_offset = 16,
				       .cfa = UNWIND_RSP };
	rows[1] = (struct unwind_row){ .begin = (uint32_t)begin + 6,
				       .cfa_offset = 24,
				       .cfa = UNWIND_RSP };
	rows[2] = (struct unwind_row){ .begin = (uint32_t)begin + SLOT_BYTES, .cfa = UNWIND_PLT };
	/* Where the push is done. */
	if (!memcmp(slot, jump, sizeof(jump)))
		rows[2].cfa_offset = 11;
	else if (!memcmp(slot, landing, sizeof(landing)))
		rows[2].cfa_offset = 9;
	else
		return;
	insert_function(&m->rows, begin, plt->sh_size, rows, ARRAY_SIZE(rows));
}

static int write_answers(const struct unwind_rows *rows, int answers)
{
	struct answer_head head = { .has_table = rows->has_table,
				    .n_functions = rows->n_functions,
				    .n_rows = rows->n_rows };
	int r = write_all(answers, &head, sizeof(head));

	if (r >= 0)
		r = write_all(answers, rows->functions,
			      rows->n_functions * sizeof(rows->functions[0]));
	if (r >= 0)
		r = write_all(answers, rows->rows, rows->n_rows * sizeof(rows->rows[0]));
	return r;
}

int unwind_rows_answer(int questions, const struct elf_image *image, int answers,
		       const char **ret_reason)
{
	_cleanup_free_ struct making *m = calloc(1, sizeof(*m));
	_cleanup_free_ uint64_t *offsets = NULL;
	size_t n = 0;
	int r;

	*ret_reason = "its unwind tables cannot be read";
	if (!m)
		return -ENOMEM;
	m->image = m->window.image = m->cie_window.image = image;
	r = read_questions(questions, &offsets, &n);
	if (r == -EINVAL)
		*ret_reason = "malformed questions";
	if (r < 0)
		return r;
	m->rows.functions = calloc(UNWIND_FUNCTIONS_MAX, sizeof(m->rows.functions[0]));
	m->rows.rows = calloc(UNWIND_ROWS_MAX, sizeof(m->rows.rows[0]));
	r = m->rows.functions && m->rows.rows ? elf_unwind_table(image, &m->table, &m->n_entries)
					      : -ENOMEM;
	m->rows.has_table = r >= 0;
	if (r >= 0)
		r = make_rows(m, offsets, n);
	if (r >= 0)
		add_linkage(m);
	if (r >= 0 || r == -ENOENT)
		r = write_answers(&m->rows, answers);
	unwind_rows_done(&m->rows);
	return r;
}

static bool is_valid(const struct unwind_rows *rows)
{
	for (uint32_t i = 0; i < rows->n_functions; i++) {
		const struct unwind_function *f = &rows->functions[i];

		if (f->begin >= f->end || (i && f[-1].end > f->begin) || f->first > rows->n_rows ||
		    f->n > rows->n_rows - f->first)
			return false;
		for (uint32_t k = f->first; k < f->first + f->n; k++) {
			const struct unwind_row *row = &rows->rows[k];

			if (row->cfa >= UNWIND_CFAS || row->rbp >= UNWIND_RBPS ||
			    row->begin >= f->end ||
			    (k == f->first ? row->begin != f->begin : row->begin <= row[-1].begin))
				return false;
		}
	}
	return true;
}

int unwind_rows_read(int answers, struct unwind_rows *ret)
{
	struct unwind_rows rows = {};
	struct answer_head head;
	size_t functions, bytes;
	struct stat st;

	if (fstat(answers, &st) < 0)
		return -errno;
	if (pread(answers, &head, sizeof(head), 0) != sizeof(head) ||
	    head.n_functions > UNWIND_FUNCTIONS_MAX || head.n_rows > UNWIND_ROWS_MAX)
		return -EBADMSG;
	functions = head.n_functions * sizeof(rows.functions[0]);
	bytes = head.n_rows * sizeof(rows.rows[0]);
	if ((size_t)st.st_size != sizeof(head) + functions + bytes)
		return -EBADMSG;
	rows = (struct unwind_rows){ .has_table = head.has_table,
				     .functions = malloc(functions + 1),
				     .rows = malloc(bytes + 1),
				     .n_functions = head.n_functions,
				     .n_rows = head.n_rows };
	if (!rows.functions || !rows.rows) {
		unwind_rows_done(&rows);
		return -ENOMEM;
	}
	if (pread(answers, rows.functions, functions, sizeof(head)) != (ssize_t)functions ||
	    pread(answers, rows.rows, bytes, (off_t)(sizeof(head) + functions)) != (ssize_t)bytes ||
	    !is_valid(&rows)) {
		unwind_rows_done(&rows);
		return -EBADMSG;
	}
	*ret = rows;
	return 0;
}

const struct unwind_row *unwind_rows_find(const struct unwind_rows *rows, uint64_t offset,
					  bool *ret_is_known)
{
	size_t i = SEARCH_FIRST(rows->n_functions, k, rows->functions[k].end <= offset), row;
	const struct unwind_function *f = &rows->functions[i];

	*ret_is_known = i < rows->n_functions && f->begin <= offset;
	if (!*ret_is_known || !f->n)
		return NULL;
	row = SEARCH_FIRST(f->n, k, rows->rows[f->first + k].begin <= offset);
	return row ? &rows->rows[f->first + row - 1] : NULL;
}
