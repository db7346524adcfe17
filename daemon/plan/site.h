/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses where in a function's first instructions an entry uprobe costs least and does no harm.
 *
 * The kernel emulates a few instructions (push of a register, nop, relative call, jmp and jcc) and
 * single-steps all others out of line, which takes 3 to 20 times as long. So the site is the first
 * emulated instruction of the straight-line code from the entry, as long as a program there sees
 * what it would see at the entry:
 *   - every instruction before it has run exactly once: none transfers control, and no branch of
 *     the function lands between the entry and the site. Where there are branches whose targets
 *     are not known (jump tables, conditional branches out of the function, which may come back),
 *     only an instruction from which straight-line code lowers the stack pointer is known to be no
 *     target, as the effect would add up;
 *   - some register holds each argument asked for, if need be another than at the entry (mov %rdi,
 *     %rbx), and nothing outside the stack frame was stored to (a destructor's first store changes
 *     the object that an argument points to);
 *   - how far the stack pointer has moved is known.
 * Without such an instruction it is the entry itself, or what follows endbr64. A nop of several
 * bytes is a site at the entry only: kernels patch it to a call, which overwrites the red zone of
 * a leaf function further in.
 *
 * Not seen are: jumps from code elsewhere into the middle of the function (a second symbol inside
 * of hand-written code, an exception's landing pad that a compiler put into a part of its own,
 * name.cold, and that goes back to a loop which begins in the first straight line).
 *
 * What the kernel takes: arch/x86/kernel/uprobes.c of Linux 3.16 to 6.18 (branch_setup_xol_ops,
 * push_setup_xol_ops and the tables of good instructions).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/record_types.h"

enum site_class {
	SITE_EMULATED,
	SITE_SINGLE_STEPPED,
	SITE_REFUSED, /* no site for a probe: see the reason */
};

/* Bits of an argument mask: the n-th integer or pointer argument of the System V calling
 * convention, from 0. */
enum {
	SITE_RDI = 1 << 0,
	SITE_RSI = 1 << 1,
	SITE_RDX = 1 << 2,
	SITE_RCX = 1 << 3,
	SITE_R8 = 1 << 4,
	SITE_R9 = 1 << 5,
	SITE_ALL_ARGUMENTS = (1 << 6) - 1,
	/* The stack pointer is as at the entry, so that a probe at the return can be placed. */
	SITE_AT_RETURN = 1 << 6,
};

#define SITE_ARGUMENTS 6

struct site {
	uint32_t offset; /* bytes from the entry of the function to the instruction */
	enum site_class class;
	/*
	 * Number of bytes by which the stack pointer at the site is below its value at the entry,
	 * where it points at the return address. A return probe may be placed only where this is 0.
	 */
	uint32_t stack_offset;
	/*
	 * Which register (enum record_register) holds each argument of the mask, all 64 bits of it,
	 * at the site: that of the calling convention as long as it does, and also for arguments
	 * outside the mask.
	 */
	uint8_t argument_register[SITE_ARGUMENTS];
	/*
	 * The function may jump back to its entry, with the stack as it was there: a loop over its
	 * parameters. A probe, here or at the entry, fires each time.
	 */
	bool may_repeat;
	uint8_t length; /* of the instruction, in bytes */
	/* The instruction in AT&T syntax, branch targets as offsets from the entry. */
	char text[96];
	const char *reason; /* why a site is refused, a constant; else NULL */
};

/*
 * Chooses the site in the code of a whole function of x86-64, size bytes from its entry. With less
 * than the whole function, branches back into the prologue can be missed. Returns the class, which
 * is also in *ret; if it is SITE_REFUSED only the class and the reason are set. Never fails
 * otherwise; allocates no memory.
 */
enum site_class site_choose(const uint8_t *code, size_t size, uint64_t argument_mask,
			    struct site *ret);

/*
 * The same for the first emulated instruction behind the function's first call. The straight line
 * from the entry leads there; conditional branches before the call are not taken. With SITE_RDI, a
 * register still holds the call's result there, and is argument_register[0]. No branch may have its
 * target between the entry and the site.
 */
enum site_class site_choose_behind_call(const uint8_t *code, size_t size, uint64_t argument_mask,
					struct site *ret);
/* How a function gets a class of a few bytes, its first argument. */
enum site_class_form {
	FORM_UNKNOWN,
	FORM_VALUE,   /* in the register */
	FORM_ADDRESS, /* the register has its address */
};

/*
 * By the straight line from the entry, past calls and conditional branches that are not taken: the
 * address if the byte at that offset from it is read, the value if a part of the register is
 * copied.
 */
enum site_class_form site_find_form(const uint8_t *code, size_t size, unsigned offset);
/*
 * Where the function goes by the first jump of the straight line from its entry, past conditional
 * branches that are not taken and calls: bytes from the entry. False: there is no direct jump out
 * of the function there.
 */
bool site_find_jump(const uint8_t *code, size_t size, int64_t *ret);
