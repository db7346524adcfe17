/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions of x86-64: what the kernel does with a probe on one, and what they do to the
 * arguments of the function that they are in. */
#pragma once

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/plan/site.h"

struct instruction {
	ZydisDecodedInstruction head;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	const uint8_t *bytes;
	uint32_t offset;
};

#define NO_ARGUMENT (-1)

/* The changes to the stack pointer and the arguments since the entry. */
struct frame {
	int64_t depth; /* bytes from the stack pointer up to the return address */
	/* The number of the argument that all 64 bits of the register hold, or NO_ARGUMENT. */
	int8_t held[REGISTER_COUNT];
};

/* By the calling convention. */
extern const uint8_t argument_registers[SITE_ARGUMENTS];

bool instruction_decoder(ZydisDecoder *decoder);
/* Decodes what is at in->offset. */
bool instruction_decode(const ZydisDecoder *decoder, const uint8_t *code, size_t size,
			struct instruction *in);
/* The number of the general register that this is, or is a part of; REGISTER_COUNT: none. */
uint8_t instruction_register(ZydisRegister reg);

/* Whether the kernel emulates it, as a push, or as a branch, or nop. */
bool instruction_is_push(const struct instruction *in);
bool instruction_is_branch(const struct instruction *in);
/* Why the instruction cannot be single-stepped, by the kernel's rules or because it would go wrong,
 * or NULL. */
const char *instruction_refusal(const struct instruction *in);

bool instruction_is_call(const struct instruction *in);
bool instruction_leaves_user_code(const struct instruction *in);
/* Whether what is executed next, or how often it is executed, is not known from it. */
bool instruction_leaves_line(const struct instruction *in);
bool instruction_writes_stack_pointer(const struct instruction *in);

struct frame frame_at_entry(void);
/* The register that holds an argument: that of the entry as long as it does; REGISTER_COUNT:
 * none. */
uint8_t frame_find(const struct frame *frame, unsigned argument);
/* Whether registers hold all arguments of the mask. */
bool frame_holds(const struct frame *frame, uint64_t argument_mask);
/* The effect of the instruction on the arguments in registers. */
void frame_track(const struct instruction *in, struct frame *frame);
/* The same of a call that returns: by the calling convention, some registers are as before. */
void frame_track_call(struct frame *frame);
/* Adds to *depth the number of bytes by which the instruction lowers the stack pointer; false if
 * that is not a constant. */
bool frame_track_stack(const struct instruction *in, int64_t *depth);
