/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/elf/cfa_program.h"

#include <errno.h>

#include "lib/base/macro.h"
#include "lib/elf/unwind_bytes.h"

/* Instructions (DWARF 5, 7.24); the first three have an operand in their low 6 bits. */
enum {
	DW_CFA_advance_loc = 0x40,
	DW_CFA_offset = 0x80,
	DW_CFA_restore = 0xc0,
	DW_CFA_nop = 0,
	DW_CFA_advance_loc1 = 2,
	DW_CFA_advance_loc2,
	DW_CFA_advance_loc4,
	DW_CFA_offset_extended,
	DW_CFA_restore_extended,
	DW_CFA_undefined,
	DW_CFA_same_value,
	DW_CFA_register,
	DW_CFA_remember_state,
	DW_CFA_restore_state,
	DW_CFA_def_cfa,
	DW_CFA_def_cfa_register,
	DW_CFA_def_cfa_offset,
	DW_CFA_def_cfa_expression,
	DW_CFA_expression,
	DW_CFA_offset_extended_sf,
	DW_CFA_def_cfa_sf,
	DW_CFA_def_cfa_offset_sf,
	DW_CFA_val_offset,
	DW_CFA_val_offset_sf,
	DW_CFA_val_expression,
	DW_CFA_GNU_args_size = 0x2e,
};

/* Of expressions (7.7.1). */
enum {
	DW_OP_deref = 0x06,
	DW_OP_and = 0x1a,
	DW_OP_plus = 0x22,
	DW_OP_shl = 0x24,
	DW_OP_ge = 0x2a,
	DW_OP_lit0 = 0x30,
	DW_OP_lit3 = 0x33,
	DW_OP_lit15 = 0x3f,
	DW_OP_breg6 = 0x76,
	DW_OP_breg7 = 0x77,
	DW_OP_breg16 = 0x80,
};

/* By the numbers of DWARF. */
#define REGISTER_RBP 6
#define REGISTER_RSP 7
#define REGISTER_RIP 16

#define REMEMBERED_MAX 8

/* The rules of one place, of those registers that are followed. */
struct rules {
	uint64_t base; /* the register of the CFA, if that is register + offset */
	int64_t offset;
	uint8_t cfa; /* enum unwind_cfa if it is neither; UNWIND_RSP: register + offset */
	uint8_t rbp; /* enum unwind_rbp */
	int64_t rbp_offset;
	bool has_caller; /* its address is below the CFA */
	bool is_outermost;
};

struct machine {
	const struct cfa_program *program;
	struct rules now, initial, remembered[REMEMBERED_MAX];
	unsigned n_remembered;
	uint64_t at; /* bytes from the function's begin */
	struct unwind_row *rows;
	size_t n, max;
};

static const uint8_t plt_before[] = { DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and };
static const uint8_t plt_after[] = { DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus };

static struct unwind_row make_row(const struct machine *m)
{
	const struct rules *now = &m->now;
	struct unwind_row row = { .begin = m->program->begin + (uint32_t)m->at,
				  .cfa_offset = (int32_t)now->offset,
				  .rbp_offset8 = (int16_t)(now->rbp_offset / 8),
				  .cfa = now->cfa,
				  .rbp = now->rbp };

	if (m->program->is_signal)
		return (struct unwind_row){ .begin = row.begin, .cfa = UNWIND_SIGNAL };
	if (row.cfa == UNWIND_RSP && now->base == REGISTER_RBP)
		row.cfa = UNWIND_RBP;
	else if (row.cfa == UNWIND_RSP && now->base != REGISTER_RSP)
		row.cfa = UNWIND_UNKNOWN;
	if (row.rbp == UNWIND_RBP_AT_CFA &&
	    (now->rbp_offset % 8 || row.rbp_offset8 != now->rbp_offset / 8))
		row.rbp = UNWIND_RBP_LOST;
	if (row.cfa_offset != now->offset || !now->has_caller)
		row.cfa = UNWIND_UNKNOWN;
	if (now->is_outermost)
		row.cfa = UNWIND_OUTERMOST;
	if (row.cfa == UNWIND_UNKNOWN || row.cfa == UNWIND_OUTERMOST)
		row = (struct unwind_row){ .begin = row.begin, .cfa = row.cfa };
	return row;
}

/* The rules so far end here. */
static int put_row(struct machine *m)
{
	struct unwind_row row = make_row(m), *last = m->n ? &m->rows[m->n - 1] : NULL;

	/* Rules at its end apply to nothing. */
	if (last && m->at >= m->program->size)
		return 0;
	if (last && last->cfa == row.cfa && last->rbp == row.rbp &&
	    last->cfa_offset == row.cfa_offset && last->rbp_offset8 == row.rbp_offset8)
		return 0;
	if (last && last->begin == row.begin) {
		*last = row;
		return 0;
	}
	if (m->n == m->max)
		return -E2BIG;
	m->rows[m->n++] = row;
	return 0;
}

static int advance(struct machine *m, uint64_t by)
{
	int r = put_row(m);

	if (by > m->program->size || m->at + by * m->program->code_alignment > m->program->size)
		return -EBADMSG;
	m->at += by * m->program->code_alignment;
	return r;
}

static void set_offset(struct machine *m, uint64_t reg, int64_t offset)
{
	if (reg == REGISTER_RBP) {
		m->now.rbp = UNWIND_RBP_AT_CFA;
		m->now.rbp_offset = offset;
	} else if (reg == m->program->return_register) {
		m->now.has_caller = offset == -8;
		m->now.is_outermost = false;
	}
}

/* A register that is somewhere else, or nowhere. */
static void set_lost(struct machine *m, uint64_t reg, bool is_undefined)
{
	if (reg == REGISTER_RBP) {
		m->now.rbp = UNWIND_RBP_LOST;
		m->now.rbp_offset = 0;
	} else if (reg == m->program->return_register) {
		m->now.has_caller = false;
		m->now.is_outermost = is_undefined;
	}
}

static void restore(struct machine *m, uint64_t reg)
{
	if (reg == REGISTER_RBP) {
		m->now.rbp = m->initial.rbp;
		m->now.rbp_offset = m->initial.rbp_offset;
	} else if (reg == m->program->return_register) {
		m->now.has_caller = m->initial.has_caller;
		m->now.is_outermost = m->initial.is_outermost;
	}
}

static void set_same(struct machine *m, uint64_t reg)
{
	if (reg == REGISTER_RBP) {
		m->now.rbp = UNWIND_RBP_KEPT;
		m->now.rbp_offset = 0;
	} else {
		set_lost(m, reg, false);
	}
}

static void set_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
	m->now.cfa = UNWIND_RSP;
	m->now.base = reg;
	m->now.offset = offset;
}

/* The expressions that linkers and compilers write. */
static void set_cfa_expression(struct machine *m, struct cursor e)
{
	size_t size = (size_t)(e.end - e.at);

	m->now.cfa = UNWIND_UNKNOWN;
	m->now.offset = 0;
	if (size == sizeof(plt_before) + 1 + sizeof(plt_after) &&
	    !memcmp(e.at, plt_before, sizeof(plt_before)) &&
	    !memcmp(e.at + sizeof(plt_before) + 1, plt_after, sizeof(plt_after)) &&
	    e.at[sizeof(plt_before)] >= DW_OP_lit0 && e.at[sizeof(plt_before)] <= DW_OP_lit15) {
		m->now.cfa = UNWIND_PLT;
		m->now.offset = e.at[sizeof(plt_before)] - DW_OP_lit0;
	} else if (size > 2 && *e.at++ == DW_OP_breg6 && cursor_sleb128(&e, &m->now.offset) &&
		   e.end - e.at == 1 && *e.at == DW_OP_deref) {
		m->now.cfa = UNWIND_RBP_WORD;
	}
}

static bool take_expression(struct cursor *c, struct cursor *ret)
{
	uint64_t size;

	if (!cursor_uleb128(c, &size) || size > (uint64_t)(c->end - c->at))
		return false;
	*ret = (struct cursor){ c->at, c->at + size };
	c->at += size;
	return true;
}

static int run_expression(struct machine *m, struct cursor *c, uint8_t op)
{
	struct cursor e;
	uint64_t reg = 0;

	if ((op != DW_CFA_def_cfa_expression && !cursor_uleb128(c, &reg)) ||
	    !take_expression(c, &e))
		return -EBADMSG;
	if (op == DW_CFA_def_cfa_expression)
		set_cfa_expression(m, e);
	else
		set_lost(m, reg, false);
	if (op == DW_CFA_expression && reg == REGISTER_RBP && e.end - e.at == 2 &&
	    e.at[0] == DW_OP_breg6 && e.at[1] == 0)
		m->now.rbp = UNWIND_RBP_AT_RBP;
	return 0;
}

static int run_advance(struct machine *m, struct cursor *c, uint8_t op)
{
	size_t size = op == DW_CFA_advance_loc1 ? 1 : op == DW_CFA_advance_loc2 ? 2 : 4;
	uint32_t by = 0;

	if ((size_t)(c->end - c->at) < size)
		return -EBADMSG;
	memcpy(&by, c->at, size);
	c->at += size;
	return advance(m, by);
}

static int run_state(struct machine *m, uint8_t op)
{
	if (op == DW_CFA_remember_state) {
		if (m->n_remembered == REMEMBERED_MAX)
			return -EOPNOTSUPP;
		m->remembered[m->n_remembered++] = m->now;
	} else if (op == DW_CFA_restore_state) {
		if (!m->n_remembered)
			return -EBADMSG;
		m->now = m->remembered[--m->n_remembered];
	}
	return 0;
}

/* Those with one or two numbers. */
static int run_numbers(struct machine *m, struct cursor *c, uint8_t op)
{
	bool has_first = op != DW_CFA_def_cfa_offset_sf;
	uint64_t first = 0, second = 0;
	int64_t factored = 0;
	bool ok = !has_first || cursor_uleb128(c, &first);

	if (op == DW_CFA_offset_extended || op == DW_CFA_register || op == DW_CFA_def_cfa ||
	    op == DW_CFA_val_offset)
		ok = ok && cursor_uleb128(c, &second);
	else if (op == DW_CFA_offset_extended_sf || op == DW_CFA_def_cfa_sf ||
		 op == DW_CFA_def_cfa_offset_sf || op == DW_CFA_val_offset_sf)
		ok = ok && cursor_sleb128(c, &factored);
	if (!ok)
		return -EBADMSG;
	/* An offset of a stack does not overflow. */
	factored = (int64_t)((uint64_t)factored * (uint64_t)m->program->data_alignment);
	switch (op) {
	case DW_CFA_offset_extended:
		set_offset(m, first, (int64_t)(second * (uint64_t)m->program->data_alignment));
		return 0;
	case DW_CFA_offset_extended_sf:
		set_offset(m, first, factored);
		return 0;
	case DW_CFA_restore_extended:
		restore(m, first);
		return 0;
	case DW_CFA_same_value:
		set_same(m, first);
		return 0;
	case DW_CFA_def_cfa:
		set_cfa(m, first, (int64_t)second);
		return 0;
	case DW_CFA_def_cfa_sf:
		set_cfa(m, first, factored);
		return 0;
	case DW_CFA_def_cfa_register:
		set_cfa(m, first, m->now.offset);
		return 0;
	case DW_CFA_def_cfa_offset:
		m->now.offset = (int64_t)first;
		return 0;
	case DW_CFA_def_cfa_offset_sf:
		m->now.offset = factored;
		return 0;
	case DW_CFA_undefined:
	case DW_CFA_register:
	case DW_CFA_val_offset:
	case DW_CFA_val_offset_sf:
		set_lost(m, first, op == DW_CFA_undefined);
		return 0;
	case DW_CFA_GNU_args_size:
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static int run_one(struct machine *m, struct cursor *c)
{
	uint8_t op = *c->at++, low = op & 0x3f;
	uint64_t offset;

	switch (op & 0xc0) {
	case DW_CFA_advance_loc:
		return advance(m, low);
	case DW_CFA_offset:
		if (!cursor_uleb128(c, &offset))
			return -EBADMSG;
		set_offset(m, low, (int64_t)(offset * (uint64_t)m->program->data_alignment));
		return 0;
	case DW_CFA_restore:
		restore(m, low);
		return 0;
	}
	switch (op) {
	case DW_CFA_nop:
		return 0;
	case DW_CFA_advance_loc1:
	case DW_CFA_advance_loc2:
	case DW_CFA_advance_loc4:
		return run_advance(m, c, op);
	case DW_CFA_remember_state:
	case DW_CFA_restore_state:
		return run_state(m, op);
	case DW_CFA_def_cfa_expression:
	case DW_CFA_expression:
	case DW_CFA_val_expression:
		return run_expression(m, c, op);
	default:
		return run_numbers(m, c, op);
	}
}

static int run(struct machine *m, const uint8_t *bytes, size_t size)
{
	struct cursor c = { bytes, bytes + size };
	int r = 0;

	while (c.at < c.end && r >= 0)
		r = run_one(m, &c);
	return r;
}

int cfa_program_run(const struct cfa_program *program, struct unwind_row *ret, size_t max)
{
	struct machine m = { .program = program,
			     .rows = ret,
			     .max = max,
			     .now = { .cfa = UNWIND_UNKNOWN, .rbp = UNWIND_RBP_KEPT } };
	int r;

	if (program->return_register != REGISTER_RIP)
		return -EOPNOTSUPP;
	r = run(&m, program->initial, program->initial_size);
	if (r >= 0 && (m.at || m.n))
		r = -EBADMSG;
	m.initial = m.now;
	if (r >= 0)
		r = run(&m, program->own, program->own_size);
	if (r >= 0)
		r = put_row(&m);
	return r < 0 ? r : (int)m.n;
}
