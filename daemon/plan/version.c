/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/version.h"

#include <Zydis/Zydis.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/plan/packs.h"
#include "lib/base/macro.h"
#include "lib/elf/lookup.h"

#define VERSION_BYTES 48

/* The address that a function of the form "return &constant" returns: its first lea of an address
 * relative to the code. */
static int returned_address(const uint8_t *code, size_t size, uint64_t address, uint64_t *ret)
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction instruction;
	ZydisDecoder decoder;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (size_t at = 0; at < size; at += instruction.length) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code + at, size - at,
							 &instruction, operands)))
			return -ENOENT;
		if (instruction.mnemonic == ZYDIS_MNEMONIC_LEA &&
		    operands[1].mem.base == ZYDIS_REGISTER_RIP)
			return ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&instruction, &operands[1],
								     address + at, ret))
				       ? 0
				       : -ENOENT;
		if (instruction.meta.category == ZYDIS_CATEGORY_RET)
			return -ENOENT;
	}
	return -ENOENT;
}

static int read_release(const struct elf_image *image, const char *function,
			char ret[VERSION_BYTES])
{
	uint64_t address, offset;
	uint8_t code[64];
	size_t size;
	int r;

	r = elf_lookup(image, function, &address);
	if (r >= 0)
		r = elf_image_code_offset(image, address, &offset);
	if (r >= 0)
		r = elf_image_read_code(image, offset, code, sizeof(code), &size);
	if (r >= 0)
		r = returned_address(code, size, address, &address);
	if (r >= 0)
		r = elf_data_offset(image, address, &offset);
	if (r >= 0)
		r = elf_image_read(image, offset, ret, VERSION_BYTES);
	if (r < 0)
		return r;
	ret[VERSION_BYTES - 1] = 0;
	if (!isdigit((unsigned char)ret[0]))
		return -ENOENT;
	for (const char *p = ret; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr(".-+_", *p))
			return -ENOENT;
	return 0;
}

int version_read(const struct elf_image *image, const struct pack *pack, char *ret, size_t size)
{
	const char *known = pack_release_of_build(pack, elf_image_build_id(image));
	char release[VERSION_BYTES];

	if (known)
		snprintf(ret, size, "%s", known);
	else if (pack->version_function &&
		 read_release(image, pack->version_function, release) >= 0)
		snprintf(ret, size, "%s", release);
	else if (*elf_image_build_id(image))
		snprintf(ret, size, "build-id:%s", elf_image_build_id(image));
	else
		return -ENOENT;
	return 0;
}

int version_of_packs(const struct elf_image *image, uint64_t bits, char *ret, size_t size)
{
	int r = -ENOENT;

	bits = packs_of_runtimes(bits);
	for (unsigned i = 0; packs[i]; i++)
		if (bits & UINT64_C(1) << i) {
			r = version_read(image, packs[i], ret, size);
			if (r >= 0 && strncmp(ret, "build-id:", 9))
				return 0;
		}
	return r;
}
