/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the static probes (USDT) that an ELF file describes in .note.stapsdt, and reads where their
 * arguments are.
 *
 * The notes: https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation. Owner "stapsdt",
 * type 3, three words of 64 bits (address of the probe's instruction, address of .stapsdt.base,
 * address of the semaphore) and three strings (provider, name, arguments as operands of the
 * assembler).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/elf/image.h"

#define USDT_SITES_MAX 65536
#define USDT_ARGUMENTS_MAX 12
/* Bytes of notes in one file; libraries have a few kilobytes. */
#define USDT_NOTES_MAX (16u << 20)

/* Registers by their place in struct pt_regs of x86-64, in words of 8 bytes. */
enum usdt_register {
	USDT_NO_REGISTER = -1,
	USDT_R15 = 0,
	USDT_R14,
	USDT_R13,
	USDT_R12,
	USDT_RBP,
	USDT_RBX,
	USDT_R11,
	USDT_R10,
	USDT_R9,
	USDT_R8,
	USDT_RAX,
	USDT_RCX,
	USDT_RDX,
	USDT_RSI,
	USDT_RDI,
	USDT_RIP = 16,
	USDT_RSP = 19,
};

enum usdt_kind {
	USDT_UNKNOWN,  /* not understood: nothing else is set */
	USDT_CONSTANT, /* value */
	USDT_REGISTER, /* base, shifted right by shift bits */
	/* The bytes at segment + base + index × scale + value; registers that are there. */
	USDT_MEMORY,
	/* The same, relative to the address of the symbol; a base of rip is omitted, because the
	 * symbol is the address. */
	USDT_SYMBOL,
};

enum usdt_segment { USDT_NO_SEGMENT, USDT_FS, USDT_GS };

struct usdt_argument {
	enum usdt_kind kind;
	enum usdt_segment segment;
	/* Bytes: 1, 2, 4 or 8; negative if it is signed. */
	int8_t size;
	uint8_t shift;      /* 8 for ah, bh, ch and dh; else 0 */
	uint8_t scale;      /* 1, 2, 4 or 8 with an index; else 0 */
	int8_t base, index; /* enum usdt_register */
	/* A constant is truncated to its size and sign-extended. */
	int64_t value;
	/* Inside the text of the arguments, not NUL-terminated; else NULL. */
	const char *symbol;
	size_t symbol_length;
};

/* One probe site; the same probe often has several. Its strings live until the callback returns. */
struct usdt_site {
	const char *provider, *name;
	const char *text; /* of the arguments, as in the file */
	/* Offset of its note in the file; 0: prelink has moved the addresses in the note. */
	uint64_t note;
	uint64_t address; /* of the probe's instruction, virtual, as in the file */
	/* Of it in the file, inside executable code. */
	uint64_t offset;
	uint64_t semaphore_address; /* virtual; 0: the probe has none */
	/*
	 * Its offset in the file, for ref_ctr_offset: two aligned bytes of a writable segment. 0
	 * with an address: the bytes are not in the file, no tool can raise the semaphore, and the
	 * program may never reach the probe.
	 */
	uint64_t semaphore;
	unsigned n_arguments; /* those past USDT_ARGUMENTS_MAX are left out */
	struct usdt_argument arguments[USDT_ARGUMENTS_MAX];
};

/* Returns 0 to continue; another value ends the calls and becomes the result of elf_usdt_match. */
typedef int (*usdt_callback)(const struct usdt_site *site, void *data);

/*
 * Calls callback for each site, in the order of the notes, whose provider and name match the
 * patterns ('*' any bytes or none, '?' one byte; NULL: all; names longer than 255 bytes match NULL
 * only). A site outside the executable code of the file, such as one of a function that the linker
 * dropped, is skipped. A file without notes or without section names is not an error. Addresses are
 * those of the file now, if prelink has moved it. Takes memory for the notes and 48 bytes per site.
 *
 * Returns 0, what the callback returned, -EINVAL for a pattern that is empty or too long, or an
 * error as listed in image.h. Nothing is reported on errors.
 */
int elf_usdt_match(const struct elf_image *image, const char *provider, const char *name,
		   usdt_callback callback, void *data, const char **ret_reason);

/*
 * Reads the text of a site's arguments, operands of x86-64 in AT&T syntax such as "-4@%edi
 * 8@16+table(%rip) 1@-8(%rsp,%rcx,8)". One that is not understood counts too, as USDT_UNKNOWN.
 * Returns their number, at most USDT_ARGUMENTS_MAX. symbol points into the text.
 */
unsigned usdt_arguments_parse(const char *text, struct usdt_argument ret[USDT_ARGUMENTS_MAX]);
