/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/site.h"

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <string.h>

#include "lib/base/macro.h"

/* Prologues are shorter; further in, a site would fire noticeably later than the entry. */
#define WALK_INSTRUCTIONS_MAX 48

struct instruction {
	ZydisDecodedInstruction head;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	const uint8_t *bytes;
	uint32_t offset;
};

/* The targets of the function's branches, as far as they concern its first instructions. */
struct branches {
	/* Lowest offset after the entry that is the target of a direct branch, SIZE_MAX if there is
	 * none. */
	size_t first_target;
	bool to_entry;
	bool unseen; /* there are branches with unknown targets */
};

#define NO_ARGUMENT (-1)

/* The changes to the stack pointer and the arguments since the entry. */
struct frame {
	int64_t depth; /* bytes from the stack pointer up to the return address */
	/* The number of the argument that all 64 bits of the register hold, or NO_ARGUMENT. */
	int8_t held[REGISTER_COUNT];
};

static const uint8_t argument_registers[SITE_ARGUMENTS] = {
	REGISTER_RDI, REGISTER_RSI, REGISTER_RDX, REGISTER_RCX, REGISTER_R8, REGISTER_R9,
};

static bool is_endbr64(const struct instruction *in)
{
	return in->head.mnemonic == ZYDIS_MNEMONIC_ENDBR64;
}

static bool is_long_nop(const struct instruction *in)
{
	return in->head.length > 1 && in->head.mnemonic == ZYDIS_MNEMONIC_NOP;
}

/* push_setup_xol_ops: 50…57, with at most the prefix 41. */
static bool is_emulated_push(const struct instruction *in)
{
	const uint8_t *b = in->bytes;

	return (in->head.length == 1 && (b[0] & 0xf8) == 0x50) ||
	       (in->head.length == 2 && b[0] == 0x41 && (b[1] & 0xf8) == 0x50);
}

/* branch_setup_xol_ops, without the prefixed forms, which kernels treat differently. */
static bool is_emulated_branch(const struct instruction *in)
{
	const uint8_t *b = in->bytes;

	switch (in->head.length) {
	case 1:
		return b[0] == 0x90;
	case 2:
		return b[0] == 0xeb || (b[0] & 0xf0) == 0x70;
	case 5:
		return b[0] == 0xe8 || b[0] == 0xe9;
	case 6:
		return b[0] == 0x0f && (b[1] & 0xf0) == 0x80;
	default:
		return false;
	}
}

/* Opcodes that are 0 in the kernel's good_insns_64 and that decode in 64-bit mode. */
static bool is_refused_opcode(uint8_t opcode)
{
	static const uint8_t refused[] = {
		0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37, 0x3f, 0x60, 0x61, 0x62,
		0x6c, 0x6d, 0x6e, 0x6f, 0x82, 0x9a, 0xcc, 0xcd, 0xce, 0xcf, 0xd4, 0xd5, 0xd6, 0xe4,
		0xe5, 0xe6, 0xe7, 0xea, 0xec, 0xed, 0xee, 0xef, 0xf1, 0xf4, 0xfa, 0xfb,
	};

	return memchr(refused, opcode, sizeof(refused)) != NULL;
}

static bool is_repeated(const struct instruction *in)
{
	return in->head.attributes &
	       (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE);
}

static bool leaves_user_code(const struct instruction *in)
{
	switch (in->head.meta.category) {
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_SYSRET:
	case ZYDIS_CATEGORY_INTERRUPT:
		return true;
	default:
		break;
	}
	switch (in->head.mnemonic) {
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_HLT:
	case ZYDIS_MNEMONIC_XBEGIN:
	case ZYDIS_MNEMONIC_XABORT:
		return true;
	default:
		return false;
	}
}

static bool writes_segment_register(const struct instruction *in)
{
	for (size_t i = 0; i < in->head.operand_count; i++)
		if (in->operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    in->operands[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
		    ZydisRegisterGetClass(in->operands[i].reg.value) == ZYDIS_REGCLASS_SEGMENT)
			return true;
	return false;
}

/*
 * branch_setup_xol_ops examines the opcode alone: that of xchg %rax, %r8 is the same as that of
 * nop, and that of vpor the same as that of jmp. An instruction that it mistakes in this way is not
 * executed.
 */
static bool is_taken_for_branch(const ZydisDecodedInstruction *head)
{
	uint8_t opcode = head->opcode;

	if (head->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY)
		return head->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && opcode == 0x90 &&
		       head->raw.rex.B;
	return opcode == 0x90 || opcode == 0xe8 || opcode == 0xe9 || opcode == 0xeb ||
	       (opcode & 0xf0) == 0x70;
}

/* Why the instruction cannot be single-stepped, by the kernel's rules or because it would go wrong,
 * or NULL. */
static const char *find_refusal(const struct instruction *in)
{
	const ZydisDecodedInstruction *head = &in->head;

	for (size_t i = 0; i < head->raw.prefix_count; i++) {
		switch (head->raw.prefixes[i].value) {
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
			return "the kernel refuses probes on instructions with a segment prefix";
		case 0xf0:
			return "the kernel refuses probes on instructions with a lock prefix";
		}
	}
	switch (head->encoding) {
	case ZYDIS_INSTRUCTION_ENCODING_LEGACY:
		if (head->opcode_map != ZYDIS_OPCODE_MAP_DEFAULT)
			break;
		__attribute__((fallthrough));
	case ZYDIS_INSTRUCTION_ENCODING_VEX:
	case ZYDIS_INSTRUCTION_ENCODING_EVEX:
		/* The kernel looks the opcode of a VEX instruction up in the table of one-byte
		 * opcodes. */
		if (is_refused_opcode(head->opcode))
			return "the kernel refuses probes on this instruction";
		break;
	default:
		return "the kernel refuses probes on this instruction";
	}
	if (is_taken_for_branch(head))
		return "the kernel mistakes the instruction for another one and skips it";
	if (leaves_user_code(in))
		return "the instruction traps or enters the kernel";
	if (writes_segment_register(in))
		return "the instruction loads a segment register";
	if (head->meta.category == ZYDIS_CATEGORY_STRINGOP && is_repeated(in))
		return "a repeated string instruction fires once for each step";
	if (head->mnemonic == ZYDIS_MNEMONIC_PUSHFQ || head->mnemonic == ZYDIS_MNEMONIC_PUSHF)
		return "the instruction would store the trap flag of single-stepping";
	return NULL;
}

static struct frame frame_at_entry(void)
{
	struct frame frame = { .depth = 0 };

	memset(frame.held, NO_ARGUMENT, sizeof(frame.held));
	for (int8_t i = 0; i < SITE_ARGUMENTS; i++)
		frame.held[argument_registers[i]] = i;
	return frame;
}

/* The register that holds an argument: that of the entry as long as it does; REGISTER_COUNT:
 * none. */
static uint8_t find_argument(const struct frame *frame, unsigned argument)
{
	uint8_t found = argument_registers[argument];

	if (frame->held[found] == (int8_t)argument)
		return found;
	for (found = 0; found < REGISTER_COUNT && frame->held[found] != (int8_t)argument; found++)
		;
	return found;
}

static bool holds_arguments(const struct frame *frame, uint64_t argument_mask)
{
	for (unsigned i = 0; i < SITE_ARGUMENTS; i++)
		if (argument_mask >> i & 1 && find_argument(frame, i) == REGISTER_COUNT)
			return false;
	return true;
}

/* The number of the general register that this is, or is a part of; REGISTER_COUNT: none. */
static uint8_t register_number(ZydisRegister reg)
{
	reg = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
	return ZydisRegisterGetClass(reg) == ZYDIS_REGCLASS_GPR64 ? (uint8_t)ZydisRegisterGetId(reg)
								  : REGISTER_COUNT;
}

/* Whether both operands are complete general registers: a 32-bit move clears the upper half. */
static bool is_between_full_registers(const struct instruction *in)
{
	for (size_t i = 0; i < 2; i++)
		if (in->operands[i].type != ZYDIS_OPERAND_TYPE_REGISTER ||
		    ZydisRegisterGetClass(in->operands[i].reg.value) != ZYDIS_REGCLASS_GPR64)
			return false;
	return in->head.operand_count_visible == 2;
}

/* The effect of the instruction on the arguments in registers. */
static void track_arguments(const struct instruction *in, struct frame *frame)
{
	const struct frame before = *frame;

	for (size_t i = 0; i < in->head.operand_count; i++) {
		const ZydisDecodedOperand *operand = &in->operands[i];
		uint8_t number;

		if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER ||
		    !(operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		number = register_number(operand->reg.value);
		if (number < REGISTER_COUNT)
			frame->held[number] = NO_ARGUMENT;
	}
	if (is_between_full_registers(in)) {
		uint8_t to = register_number(in->operands[0].reg.value),
			from = register_number(in->operands[1].reg.value);

		if (in->head.mnemonic == ZYDIS_MNEMONIC_MOV ||
		    in->head.mnemonic == ZYDIS_MNEMONIC_XCHG)
			frame->held[to] = before.held[from];
		if (in->head.mnemonic == ZYDIS_MNEMONIC_XCHG)
			frame->held[from] = before.held[to];
	}
}

/* Adds to *depth the number of bytes by which the instruction lowers the stack pointer; false if
 * that is not a constant. */
static bool track_stack(const struct instruction *in, int64_t *depth)
{
	const ZydisDecodedOperand *first = &in->operands[0], *second = &in->operands[1];
	bool is_rsp = first->type == ZYDIS_OPERAND_TYPE_REGISTER &&
		      first->reg.value == ZYDIS_REGISTER_RSP;

	switch (in->head.mnemonic) {
	case ZYDIS_MNEMONIC_PUSH:
		*depth += in->head.operand_width / 8;
		return *depth <= UINT32_MAX;
	case ZYDIS_MNEMONIC_POP:
		*depth -= in->head.operand_width / 8;
		return !is_rsp && *depth >= 0;
	case ZYDIS_MNEMONIC_SUB:
	case ZYDIS_MNEMONIC_ADD:
		if (!is_rsp || second->type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
			return false;
		*depth += in->head.mnemonic == ZYDIS_MNEMONIC_SUB ? second->imm.value.s
								  : -second->imm.value.s;
		return *depth >= 0 && *depth <= UINT32_MAX;
	case ZYDIS_MNEMONIC_LEA:
		if (!is_rsp || second->mem.base != ZYDIS_REGISTER_RSP ||
		    second->mem.index != ZYDIS_REGISTER_NONE)
			return false;
		*depth -= second->mem.disp.value;
		return *depth >= 0 && *depth <= UINT32_MAX;
	default:
		return false;
	}
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

static bool writes_stack_pointer(const struct instruction *in)
{
	for (size_t i = 0; i < in->head.operand_count; i++)
		if (in->operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    in->operands[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
		    register_number(in->operands[i].reg.value) == REGISTER_RSP)
			return true;
	return false;
}

static bool leaves_straight_line(const struct instruction *in)
{
	return in->head.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE || leaves_user_code(in) ||
	       is_repeated(in);
}

/* Whether a program sees the same after the instruction as at the entry; advances the frame. */
static bool can_walk_over(const struct instruction *in, uint64_t argument_mask, struct frame *frame)
{
	if (leaves_straight_line(in))
		return false;
	for (size_t i = 0; i < in->head.operand_count; i++) {
		const ZydisDecodedOperand *operand = &in->operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
		    !is_own_frame(operand, frame->depth))
			return false;
	}
	track_arguments(in, frame);
	return holds_arguments(frame, argument_mask) &&
	       (!writes_stack_pointer(in) || track_stack(in, &frame->depth));
}

static bool decode(const ZydisDecoder *decoder, const uint8_t *code, size_t size,
		   struct instruction *in)
{
	in->bytes = code + in->offset;
	return ZYAN_SUCCESS(ZydisDecoderDecodeFull(decoder, in->bytes, size - in->offset, &in->head,
						   in->operands));
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
		if (!decode(decoder, code, size, &in))
			return false;
		/* What it calls leaves the stack as it was. */
		if (in.head.meta.category == ZYDIS_CATEGORY_CALL || leaves_straight_line(&in))
			break;
		/* and $-32, %rsp and the like: lower by an unknown number. */
		if (writes_stack_pointer(&in) && !track_stack(&in, &depth))
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
		uint8_t found = find_argument(frame, i);

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
		if (!decode(decoder, code, size, &in)) {
			if (!refused.reason)
				refused.reason = "the code is not a complete instruction";
			break;
		}
		/* By a branch with an unknown target. */
		reachable =
			in.offset > 0 && branches->unseen && !lowers_stack(decoder, code, size, in);
		if ((is_emulated_push(&in) || is_emulated_branch(&in)) && !reachable) {
			fill_site(ret, &in, SITE_EMULATED, &frame, may_repeat);
			return;
		}
		refusal = find_refusal(&in);
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

static bool init_decoder(ZydisDecoder *decoder)
{
	return ZYAN_SUCCESS(
		ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64));
}

enum site_class site_choose(const uint8_t *code, size_t size, uint64_t argument_mask,
			    struct site *ret)
{
	struct branches branches = { .first_target = SIZE_MAX };
	struct instruction entry = { .offset = 0 };
	ZydisDecoder decoder;

	size = MIN(size, UINT32_MAX);
	if (!init_decoder(&decoder)) {
		*ret = (struct site){ .class = SITE_REFUSED,
				      .reason = "no decoder for this machine" };
		return ret->class;
	}
	/* The targets of branches do not matter to most functions that begin with a push: save the
	 * time. */
	if (size > 0 && decode(&decoder, code, size, &entry) && is_emulated_push(&entry) &&
	    lowers_stack(&decoder, code, size, entry)) {
		walk(&decoder, code, size, argument_mask, &branches, ret);
		return ret->class;
	}
	find_branches(&decoder, code, size, &branches);
	walk(&decoder, code, size, argument_mask, &branches, ret);
	return ret->class;
}

static bool is_call(const struct instruction *in)
{
	return in->head.meta.category == ZYDIS_CATEGORY_CALL;
}

static bool is_conditional(const struct instruction *in)
{
	return in->head.meta.category == ZYDIS_CATEGORY_COND_BR && !leaves_user_code(in);
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
		if (!decode(decoder, code, size, &in))
			return "the code is not a complete instruction";
		if (called && (is_emulated_push(&in) || is_emulated_branch(&in))) {
			fill_site(ret, &in, SITE_EMULATED, &frame, false);
			return NULL;
		}
		if (is_call(&in) && !called) {
			/* The stack is as it was; of registers, only what it returned counts. */
			memset(frame.held, NO_ARGUMENT, sizeof(frame.held));
			frame.held[REGISTER_RAX] = 0;
			called = true;
			continue;
		}
		/* A branch before the call that is taken skips the site, too. */
		if (leaves_straight_line(&in) && (called || !is_conditional(&in)))
			break;
		track_arguments(&in, &frame);
		if ((called && !holds_arguments(&frame, mask)) ||
		    (writes_stack_pointer(&in) && !track_stack(&in, &frame.depth)))
			break;
	}
	return "no emulated instruction follows the first call";
}

enum site_class site_choose_behind_call(const uint8_t *code, size_t size, uint64_t mask,
					struct site *ret)
{
	const char *reason = "no decoder for this machine";
	ZydisDecoder decoder;

	if (init_decoder(&decoder))
		reason = walk_behind_call(&decoder, code, MIN(size, UINT32_MAX), mask, ret);
	if (reason)
		*ret = (struct site){ .class = SITE_REFUSED, .reason = reason };
	return ret->class;
}

bool site_find_jump(const uint8_t *code, size_t size, int64_t *ret)
{
	struct instruction in = { .offset = 0 };
	ZydisDecoder decoder;

	if (!init_decoder(&decoder))
		return false;
	for (unsigned n = 0; n < WALK_INSTRUCTIONS_MAX && in.offset < size; n++) {
		if (!decode(&decoder, code, size, &in))
			return false;
		in.offset += in.head.length;
		if (in.head.meta.category == ZYDIS_CATEGORY_UNCOND_BR) {
			*ret = in.offset + in.head.raw.imm[0].value.s;
			return in.head.raw.imm[0].is_relative &&
			       (*ret < 0 || *ret >= (int64_t)size);
		}
		if (!is_call(&in) && !is_conditional(&in) && leaves_straight_line(&in))
			return false;
	}
	return false;
}
