/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/site.h"

#include <string.h>

#include "daemon/plan/instruction.h"
#include "lib/base/macro.h"

/* Prologues are shorter; further in, a site would fire noticeably later than the entry. */
#define WALK_INSTRUCTIONS_MAX 48

/* The targets of the function's branches, as far as they concern its first instructions. */
struct branches {
	/* Lowest offset after the entry that is the target of a direct branch, SIZE_MAX if there is
	 * none. */
	size_t first_target;
	bool to_entry;
	bool unseen; /* there are branches with unknown targets */
};

static bool is_endbr64(const struct instruction *in)
{
	return in->head.mnemonic == ZYDIS_MNEMONIC_ENDBR64;
}

static bool is_long_nop(const struct instruction *in)
{
	return in->head.length > 1 && in->head.mnemonic == ZYDIS_MNEMONIC_NOP;
}

/* Whether a memory operand that is written lies below the return address: in the frame, or what a
 * push stores. */
static bool is_own_frame(const ZydisDecodedOperand *operand, int64_t depth)
{
	if (operand->mem.base != ZYDIS_REGISTER_RSP || operand->mem.segment != ZYDIS_REGISTER_SS)
		return false;
	return operand->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN ||
	       (operand->mem.index == ZYDIS_REGISTER_NONE && operand->size > 0 &&
		operand->mem.disp.value + operand->size / 8 <= depth);
}

/* Whether a program sees the same after the instruction as at the entry; advances the frame. */
static bool can_walk_over(const struct instruction *in, uint64_t argument_mask, struct frame *frame)
{
	if (instruction_leaves_line(in))
		return false;
	for (size_t i = 0; i < in->head.operand_count; i++) {
		const ZydisDecodedOperand *operand = &in->operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
		    !is_own_frame(operand, frame->depth))
			return false;
	}
	frame_track(in, frame);
	return frame_holds(frame, argument_mask) &&
	       (!instruction_writes_stack_pointer(in) || frame_track_stack(in, &frame->depth));
}

/*
 * Whether the straight line from an instruction on ends with a lower stack pointer than before it:
 * then no jump leads back to it within the function's frame, because the effect would add up.
 */
static bool lowers_stack(const ZydisDecoder *decoder, const uint8_t *code, size_t size,
			 struct instruction in)
{
	/* Room for what is popped below the start. */
	const int64_t start = UINT16_MAX;
	int64_t depth = start;

	for (unsigned n = 0; n < WALK_INSTRUCTIONS_MAX && in.offset < size; n++) {
		if (!instruction_decode(decoder, code, size, &in))
			return false;
		/* What it calls leaves the stack as it was. */
		if (instruction_is_call(&in) || instruction_leaves_line(&in))
			break;
		/* and $-32, %rsp and the like: lower by an unknown number. */
		if (instruction_writes_stack_pointer(&in) && !frame_track_stack(&in, &depth))
			return in.head.mnemonic == ZYDIS_MNEMONIC_AND && depth > start;
		in.offset += in.head.length;
	}
	return depth > start;
}

static void fill_site(struct site *site, const struct instruction *in, enum site_class class,
		      const struct frame *frame, bool may_repeat)
{
	ZydisFormatter formatter;

	*site = (struct site){
		.offset = in->offset,
		.class = class,
		.stack_offset = (uint32_t)frame->depth,
		.may_repeat = may_repeat,
		.length = in->head.length,
	};
	for (unsigned i = 0; i < SITE_ARGUMENTS; i++) {
		uint8_t found = frame_find(frame, i);

		site->argument_register[i] = found < REGISTER_COUNT ? found : argument_registers[i];
	}
	if (ZYAN_FAILED(ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_ATT)) ||
	    ZYAN_FAILED(ZydisFormatterFormatInstruction(&formatter, &in->head, in->operands,
							in->head.operand_count_visible, site->text,
							sizeof(site->text), in->offset, NULL)))
		strcpy(site->text, "?");
}

/* Walks from the entry to the site, looking no further than the first branch target. */
static void walk(const ZydisDecoder *decoder, const uint8_t *code, size_t size,
		 uint64_t argument_mask, const struct branches *branches, struct site *ret)
{
	struct site refused = { .class = SITE_REFUSED, .reason = NULL };
	struct site fallback = { .class = SITE_REFUSED };
	bool fallback_is_endbr64 = false;
	struct instruction in = { .offset = 0 };
	struct frame frame = frame_at_entry();
	bool comes_back = branches->to_entry || branches->unseen;
	bool may_repeat = comes_back && !lowers_stack(decoder, code, size, in);

	for (unsigned n = 0;
	     n < WALK_INSTRUCTIONS_MAX && in.offset < MIN(size, branches->first_target); n++) {
		const char *refusal;
		bool reachable;

		if (argument_mask & SITE_AT_RETURN && frame.depth)
			break;
		if (!instruction_decode(decoder, code, size, &in)) {
			if (!refused.reason)
				refused.reason = "the code is not a complete instruction";
			break;
		}
		/* By a branch with an unknown target. */
		reachable =
			in.offset > 0 && branches->unseen && !lowers_stack(decoder, code, size, in);
		if ((instruction_is_push(&in) || instruction_is_branch(&in)) && !reachable) {
			fill_site(ret, &in, SITE_EMULATED, &frame, may_repeat);
			return;
		}
		refusal = instruction_refusal(&in);
		if (!refusal && is_long_nop(&in) && (in.offset > 0 || comes_back))
			refusal =
				"the kernel may patch a nop of several bytes inside a function to a call";
		if (!refusal && reachable)
			refusal = "branches with unknown targets may lead to the instruction";
		if (refusal && !refused.reason)
			refused.reason = refusal;
		if (!refusal && (fallback.class == SITE_REFUSED || fallback_is_endbr64)) {
			fill_site(&fallback, &in, SITE_SINGLE_STEPPED, &frame, may_repeat);
			fallback_is_endbr64 = is_endbr64(&in);
		}
		if (!can_walk_over(&in, argument_mask, &frame))
			break;
		in.offset += in.head.length;
	}
	if (!refused.reason)
		refused.reason = "the function has no code";
	*ret = fallback.class == SITE_REFUSED ? refused : fallback;
}

/* Decodes the whole function and notes where its branches go. */
static void find_branches(const ZydisDecoder *decoder, const uint8_t *code, size_t size,
			  struct branches *ret)
{
	struct branches found = { .first_target = SIZE_MAX };

	for (size_t offset = 0; offset < size;) {
		ZydisDecodedInstruction head;

		if (ZYAN_FAILED(ZydisDecoderDecodeInstruction(decoder, NULL, code + offset,
							      size - offset, &head))) {
			offset++;
			continue;
		}
		offset += head.length;
		if (head.raw.imm[0].is_relative) {
			uint64_t target = (uint64_t)offset + (uint64_t)head.raw.imm[0].value.s;

			found.to_entry |= target == 0 && head.meta.category != ZYDIS_CATEGORY_CALL;
			if (target > 0 && target < size)
				found.first_target = MIN(found.first_target, target);
			/* To a part elsewhere; without a condition, to another function. */
			found.unseen |=
				target >= size && head.meta.category == ZYDIS_CATEGORY_COND_BR;
		} else if (head.meta.category == ZYDIS_CATEGORY_UNCOND_BR) {
			found.unseen = true;
		}
	}
	*ret = found;
}

enum site_class site_choose(const uint8_t *code, size_t size, uint64_t argument_mask,
			    struct site *ret)
{
	struct branches branches = { .first_target = SIZE_MAX };
	struct instruction entry = { .offset = 0 };
	ZydisDecoder decoder;

	size = MIN(size, UINT32_MAX);
	if (!instruction_decoder(&decoder)) {
		*ret = (struct site){ .class = SITE_REFUSED,
				      .reason = "no decoder for this machine" };
		return ret->class;
	}
	/* The targets of branches do not matter to most functions that begin with a push: save the
	 * time. */
	if (size > 0 && instruction_decode(&decoder, code, size, &entry) &&
	    instruction_is_push(&entry) && lowers_stack(&decoder, code, size, entry)) {
		walk(&decoder, code, size, argument_mask, &branches, ret);
		return ret->class;
	}
	find_branches(&decoder, code, size, &branches);
	walk(&decoder, code, size, argument_mask, &branches, ret);
	return ret->class;
}

static bool is_conditional(const struct instruction *in)
{
	return in->head.meta.category == ZYDIS_CATEGORY_COND_BR &&
	       !instruction_leaves_user_code(in);
}

/* Walks to the site behind the first call. NULL, or why there is none. */
static const char *walk_behind_call(const ZydisDecoder *decoder, const uint8_t *code, size_t size,
				    uint64_t mask, struct site *ret)
{
	struct instruction in = { .offset = 0 };
	struct frame frame = frame_at_entry();
	struct branches branches;
	bool called = false;

	find_branches(decoder, code, size, &branches);
	if (branches.unseen)
		return "branches with unknown targets may lead to the instruction";
	for (unsigned n = 0;
	     n < WALK_INSTRUCTIONS_MAX && in.offset < MIN(size, branches.first_target);
	     n++, in.offset += in.head.length) {
		if (!instruction_decode(decoder, code, size, &in))
			return "the code is not a complete instruction";
		if (called && (instruction_is_push(&in) || instruction_is_branch(&in))) {
			fill_site(ret, &in, SITE_EMULATED, &frame, false);
			return NULL;
		}
		if (instruction_is_call(&in) && !called) {
			/* The stack is as it was; of registers, only what it returned counts. */
			memset(frame.held, NO_ARGUMENT, sizeof(frame.held));
			frame.held[REGISTER_RAX] = 0;
			called = true;
			continue;
		}
		/* A branch before the call that is taken skips the site, too. */
		if (instruction_leaves_line(&in) && (called || !is_conditional(&in)))
			break;
		frame_track(&in, &frame);
		if ((called && !frame_holds(&frame, mask)) ||
		    (instruction_writes_stack_pointer(&in) &&
		     !frame_track_stack(&in, &frame.depth)))
			break;
	}
	return "no emulated instruction follows the first call";
}

enum site_class site_choose_behind_call(const uint8_t *code, size_t size, uint64_t mask,
					struct site *ret)
{
	const char *reason = "no decoder for this machine";
	ZydisDecoder decoder;

	if (instruction_decoder(&decoder))
		reason = walk_behind_call(&decoder, code, MIN(size, UINT32_MAX), mask, ret);
	if (reason)
		*ret = (struct site){ .class = SITE_REFUSED, .reason = reason };
	return ret->class;
}

/* By one instruction; FORM_UNKNOWN: it has no part in that. */
static enum site_class_form form_by(const struct instruction *in, const struct frame *frame,
				    unsigned offset)
{
	bool copies = in->head.mnemonic == ZYDIS_MNEMONIC_MOV ||
		      in->head.mnemonic == ZYDIS_MNEMONIC_MOVZX;

	for (size_t i = 0; i < in->head.operand_count_visible; i++) {
		const ZydisDecodedOperand *o = &in->operands[i];
		bool is_memory = o->type == ZYDIS_OPERAND_TYPE_MEMORY;
		uint8_t number = is_memory ? instruction_register(o->mem.base)
				 : o->type == ZYDIS_OPERAND_TYPE_REGISTER
					 ? instruction_register(o->reg.value)
					 : REGISTER_COUNT;

		if (number >= REGISTER_COUNT || frame->held[number] != 0 ||
		    !(o->actions & ZYDIS_OPERAND_ACTION_MASK_READ))
			continue;
		/* Others test bits of an address, too. */
		if (!is_memory && o->size < 64 && copies)
			return FORM_VALUE;
		if (is_memory && o->size == 8 && o->mem.index == ZYDIS_REGISTER_NONE &&
		    o->mem.disp.value == (int64_t)offset)
			return FORM_ADDRESS;
	}
	return FORM_UNKNOWN;
}

enum site_class_form site_find_form(const uint8_t *code, size_t size, unsigned offset)
{
	struct instruction in = { .offset = 0 };
	struct frame frame = frame_at_entry();
	enum site_class_form found;
	ZydisDecoder decoder;

	if (!instruction_decoder(&decoder))
		return FORM_UNKNOWN;
	for (unsigned n = 0; n < WALK_INSTRUCTIONS_MAX && in.offset < size;
	     n++, in.offset += in.head.length) {
		if (!instruction_decode(&decoder, code, size, &in))
			break;
		found = form_by(&in, &frame, offset);
		if (found != FORM_UNKNOWN)
			return found;
		if (instruction_is_call(&in))
			frame_track_call(&frame);
		else if (instruction_leaves_line(&in) && !is_conditional(&in))
			break;
		else
			frame_track(&in, &frame);
	}
	return FORM_UNKNOWN;
}

bool site_find_jump(const uint8_t *code, size_t size, int64_t *ret)
{
	struct instruction in = { .offset = 0 };
	ZydisDecoder decoder;

	if (!instruction_decoder(&decoder))
		return false;
	for (unsigned n = 0; n < WALK_INSTRUCTIONS_MAX && in.offset < size; n++) {
		if (!instruction_decode(&decoder, code, size, &in))
			return false;
		in.offset += in.head.length;
		if (in.head.meta.category == ZYDIS_CATEGORY_UNCOND_BR) {
			*ret = in.offset + in.head.raw.imm[0].value.s;
			return in.head.raw.imm[0].is_relative &&
			       (*ret < 0 || *ret >= (int64_t)size);
		}
		if (!instruction_is_call(&in) && !is_conditional(&in) &&
		    instruction_leaves_line(&in))
			return false;
	}
	return false;
}
