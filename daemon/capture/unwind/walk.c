/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/unwind/walk.h"

#include <errno.h>
#include <string.h>

/* Of the registers that the kernel stores on the stack of a handler of signals (struct ucontext),
 * from where the handler returns to. */
#define SIGNAL_RBP 120
#define SIGNAL_RSP 160
#define SIGNAL_RIP 168

struct state {
	const struct walk *walk;
	uint64_t ip, sp, bp;
	bool knows_bp, knows_sp;
	bool is_exact; /* ip is an instruction that was reached, not where a call returns to */
	/* The frame of the chain whose frame pointer is bp; n_chain: none. */
	unsigned chained;
	/* A place of the stack, and the frame of the chain whose frame pointer it holds. */
	uint64_t followed;
	unsigned followed_at;
};

static bool read_word(const struct walk *w, uint64_t address, uint64_t *ret)
{
	if (address < w->start || address % 8 || w->size < 8 || address - w->start > w->size - 8)
		return false;
	memcpy(ret, w->stack + (address - w->start), sizeof(*ret));
	return true;
}

/* Which frame of the chain has that frame pointer, by following it as the kernel did. */
static unsigned find_in_chain(struct state *s, uint64_t bp)
{
	const struct walk *w = s->walk;

	while (s->followed_at + 1 < w->n_chain) {
		uint64_t caller, next;

		if (s->followed == bp)
			return s->followed_at;
		if (s->followed > bp || !read_word(w, s->followed, &next) ||
		    !read_word(w, s->followed + 8, &caller) ||
		    caller != w->chain[s->followed_at + 1] || next <= s->followed)
			break;
		s->followed = next;
		s->followed_at++;
	}
	return w->n_chain;
}

static bool find_cfa(const struct state *s, const struct unwind_row *row, uint64_t *ret)
{
	const uint64_t offset = (uint64_t)(int64_t)row->cfa_offset;

	switch (row->cfa) {
	case UNWIND_RSP:
		*ret = s->sp + offset;
		return s->knows_sp;
	case UNWIND_RBP:
		*ret = s->bp + offset;
		return s->knows_bp;
	case UNWIND_RBP_WORD:
		return s->knows_bp && read_word(s->walk, s->bp + offset, ret);
	case UNWIND_PLT:
		*ret = s->sp + 8 + ((s->ip & 15) >= offset ? 8 : 0);
		return s->knows_sp;
	default:
		return false;
	}
}

static bool leave_handler(struct state *s)
{
	uint64_t frame = s->sp;

	if (!s->knows_sp || !read_word(s->walk, frame + SIGNAL_RIP, &s->ip) ||
	    !read_word(s->walk, frame + SIGNAL_RBP, &s->bp) ||
	    !read_word(s->walk, frame + SIGNAL_RSP, &s->sp))
		return false;
	s->knows_bp = true;
	s->is_exact = true;
	s->chained = s->walk->n_chain;
	return true;
}

static bool has_frame_pointer(const struct unwind_row *row)
{
	return row->cfa == UNWIND_RBP && row->cfa_offset == 16 && row->rbp == UNWIND_RBP_AT_CFA &&
	       row->rbp_offset8 == -2;
}

/* The caller's frame is beyond the copy, but the kernel has followed this frame's pointer. */
static bool follow_chain(struct state *s, const struct unwind_row *row)
{
	if (!has_frame_pointer(row))
		return false;
	if (s->knows_bp)
		s->chained = find_in_chain(s, s->bp);
	if (s->chained + 1 >= s->walk->n_chain)
		return false;
	s->ip = s->walk->chain[++s->chained];
	s->knows_bp = s->knows_sp = s->is_exact = false;
	return true;
}

static bool go_to_caller(struct state *s, const struct unwind_row *row)
{
	const struct walk *w = s->walk;
	uint64_t cfa, caller, bp = s->bp;
	bool knows_bp = s->knows_bp;

	if (row->cfa == UNWIND_SIGNAL)
		return leave_handler(s);
	if (!find_cfa(s, row, &cfa) || !read_word(w, cfa - 8, &caller))
		return follow_chain(s, row);
	/* Frames lie above each other, but for those of handlers. */
	if (s->knows_sp && cfa <= s->sp)
		return false;
	if (row->rbp == UNWIND_RBP_AT_CFA)
		knows_bp = read_word(w, cfa + (uint64_t)((int64_t)row->rbp_offset8 * 8), &bp);
	else if (row->rbp == UNWIND_RBP_AT_RBP)
		knows_bp = s->knows_bp && read_word(w, s->bp, &bp);
	else if (row->rbp == UNWIND_RBP_LOST)
		knows_bp = false;
	s->ip = caller;
	s->sp = cfa;
	s->bp = bp;
	s->knows_bp = knows_bp;
	s->knows_sp = true;
	s->is_exact = false;
	return true;
}

int walk_stack(const struct walk *walk, uint64_t *ret, unsigned max, bool *ret_whole)
{
	static const struct unwind_row by_pointer = {
		.cfa = UNWIND_RBP, .cfa_offset = 16, .rbp = UNWIND_RBP_AT_CFA, .rbp_offset8 = -2
	};
	struct state s = { .walk = walk,
			   .ip = walk->ip,
			   .sp = walk->sp,
			   .bp = walk->bp,
			   .knows_bp = true,
			   .knows_sp = true,
			   .is_exact = true,
			   .chained = walk->n_chain,
			   .followed = walk->bp };
	unsigned n = 0;

	*ret_whole = false;
	while (n < max) {
		struct unwind_row row = {};
		/* A call can be the last instruction of its function. */
		enum walk_code code = walk->code(s.ip - !s.is_exact, &row, walk->data);

		if (code == WALK_LATER)
			return -EAGAIN;
		if (code == WALK_NO_CODE && n > 0) {
			/* Where threads begin, some have no address to return to. */
			*ret_whole = s.ip == 0;
			break;
		}
		/* A reader subtracts one from all but the first. */
		ret[n] = s.ip + (s.is_exact && n > 0);
		n++;
		*ret_whole = code == WALK_ROW && row.cfa == UNWIND_OUTERMOST;
		if (code == WALK_NO_TABLE)
			row = by_pointer;
		else if (code != WALK_ROW || *ret_whole)
			break;
		if (!go_to_caller(&s, &row))
			break;
	}
	return (int)n;
}
