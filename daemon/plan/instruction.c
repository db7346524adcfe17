/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/instruction.h"

#include <string.h>

#include "lib/base/macro.h"

/* push_setup_xol_ops: 50…57, with at most the prefix 41. */
bool instruction_is_push(const struct instruction *in)
{
	const uint8_t *b = in->bytes;

	return (in->head.length == 1 && (b[0] & 0xf8) == 0x50) ||
	       (in->head.length == 2 && b[0] == 0x41 && (b[1] & 0xf8) == 0x50);
}

/* branch_setup_xol_ops, without the prefixed forms, which kernels treat differently. */
bool instruction_is_branch(const struct instruction *in)
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

bool instruction_leaves_user_code(const struct instruction *in)
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

const char *instruction_refusal(const struct instruction *in)
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
	if (instruction_leaves_user_code(in))
		return "the instruction traps or enters the kernel";
	if (writes_segment_register(in))
		return "the instruction loads a segment register";
	if (head->meta.category == ZYDIS_CATEGORY_STRINGOP && is_repeated(in))
		return "a repeated string instruction fires once for each step";
	if (head->mnemonic == ZYDIS_MNEMONIC_PUSHFQ || head->mnemonic == ZYDIS_MNEMONIC_PUSHF)
		return "the instruction would store the trap flag of single-stepping";
	return NULL;
}

const uint8_t argument_registers[SITE_ARGUMENTS] = {
	REGISTER_RDI, REGISTER_RSI, REGISTER_RDX, REGISTER_RCX, REGISTER_R8, REGISTER_R9,
};

struct frame frame_at_entry(void)
{
	struct frame frame = { .depth = 0 };

	memset(frame.held, NO_ARGUMENT, sizeof(frame.held));
	for (int8_t i = 0; i < SITE_ARGUMENTS; i++)
		frame.held[argument_registers[i]] = i;
	return frame;
}

uint8_t frame_find(const struct frame *frame, unsigned argument)
{
	uint8_t found = argument_registers[argument];

	if (frame->held[found] == (int8_t)argument)
		return found;
	for (found = 0; found < REGISTER_COUNT && frame->held[found] != (int8_t)argument; found++)
		;
	return found;
}

bool frame_holds(const struct frame *frame, uint64_t argument_mask)
{
	for (unsigned i = 0; i < SITE_ARGUMENTS; i++)
		if (argument_mask >> i & 1 && frame_find(frame, i) == REGISTER_COUNT)
			return false;
	return true;
}

uint8_t instruction_register(ZydisRegister reg)
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

void frame_track(const struct instruction *in, struct frame *frame)
{
	const struct frame before = *frame;

	for (size_t i = 0; i < in->head.operand_count; i++) {
		const ZydisDecodedOperand *operand = &in->operands[i];
		uint8_t number;

		if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER ||
		    !(operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		number = instruction_register(operand->reg.value);
		if (number < REGISTER_COUNT)
			frame->held[number] = NO_ARGUMENT;
	}
	if (is_between_full_registers(in)) {
		uint8_t to = instruction_register(in->operands[0].reg.value),
			from = instruction_register(in->operands[1].reg.value);

		if (in->head.mnemonic == ZYDIS_MNEMONIC_MOV ||
		    in->head.mnemonic == ZYDIS_MNEMONIC_XCHG)
			frame->held[to] = before.held[from];
		if (in->head.mnemonic == ZYDIS_MNEMONIC_XCHG)
			frame->held[from] = before.held[to];
	}
}

void frame_track_call(struct frame *frame)
{
	static const uint8_t lost[] = { REGISTER_RAX, REGISTER_RCX, REGISTER_RDX,
					REGISTER_RSI, REGISTER_RDI, REGISTER_R8,
					REGISTER_R9,  REGISTER_R10, REGISTER_R11 };

	for (size_t i = 0; i < ARRAY_SIZE(lost); i++)
		frame->held[lost[i]] = NO_ARGUMENT;
}

bool frame_track_stack(const struct instruction *in, int64_t *depth)
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

bool instruction_writes_stack_pointer(const struct instruction *in)
{
	for (size_t i = 0; i < in->head.operand_count; i++)
		if (in->operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    in->operands[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
		    instruction_register(in->operands[i].reg.value) == REGISTER_RSP)
			return true;
	return false;
}

bool instruction_leaves_line(const struct instruction *in)
{
	return in->head.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE ||
	       instruction_leaves_user_code(in) || is_repeated(in);
}

bool instruction_is_call(const struct instruction *in)
{
	return in->head.meta.category == ZYDIS_CATEGORY_CALL;
}

bool instruction_decode(const ZydisDecoder *decoder, const uint8_t *code, size_t size,
			struct instruction *in)
{
	in->bytes = code + in->offset;
	return ZYAN_SUCCESS(ZydisDecoderDecodeFull(decoder, in->bytes, size - in->offset, &in->head,
						   in->operands));
}

bool instruction_decoder(ZydisDecoder *decoder)
{
	return ZYAN_SUCCESS(
		ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64));
}
