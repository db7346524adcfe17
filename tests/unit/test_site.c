/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/site.h"
#include "lib/base/macro.h"
#include "tests/unit/check.h"

#define ALL SITE_ALL_ARGUMENTS
#define EMULATED SITE_EMULATED
#define STEPPED SITE_SINGLE_STEPPED
#define REFUSED SITE_REFUSED

struct expectation {
	const char *what;
	const char *code; /* in hexadecimal, blanks between */
	uint64_t arguments;
	enum site_class class;
	uint32_t offset, stack_offset;
	const char *text; /* NULL: any */
};

static size_t read_hex(const char *hex, uint8_t *bytes, size_t size)
{
	size_t n = 0;
	int used;

	for (; n < size && sscanf(hex, "%2hhx%n", &bytes[n], &used) == 1; hex += used)
		n++;
	return n;
}

static void expect(const struct expectation *expected, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct expectation *e = &expected[i];
		_cleanup_free_ uint8_t *exact = NULL;
		uint8_t bytes[256];
		struct site site;
		size_t size = read_hex(e->code, bytes, sizeof(bytes));
		enum site_class class;

		/* A copy of just the size, so that the address sanitizer sees a read past the end.
		 */
		exact = malloc(MAX(size, 1u));
		memcpy(exact, bytes, size);
		class = site_choose(exact, size, e->arguments, &site);
		if (class != e->class || (class != SITE_REFUSED && site.offset != e->offset))
			fprintf(stderr, "  %s (got %s, %s):\n", e->what,
				class == SITE_REFUSED ? "refused" : site.text,
				site.reason ? site.reason : "no reason");
		CHECK_EQ(class, e->class);
		CHECK_EQ(site.class, class);
		CHECK_EQ(site.reason != NULL, class == SITE_REFUSED);
		if (class == SITE_REFUSED)
			continue;
		CHECK_EQ(site.offset, e->offset);
		CHECK_EQ(site.stack_offset, e->stack_offset);
		CHECK(site.length > 0 && site.offset + site.length <= size);
		if (e->text)
			CHECK_STR(site.text, e->text);
	}
}

TEST(an_emulated_first_instruction_is_the_site)
{
	static const struct expectation cases[] = {
		{ "push rbp", "55 48 89 e5 c3", ALL, EMULATED, 0, 0, "push %rbp" },
		{ "push r15", "41 57 c3", ALL, EMULATED, 0, 0, "push %r15" },
		{ "push of an argument", "57 c3", ALL, EMULATED, 0, 0, "push %rdi" },
		{ "one-byte nop", "90 c3", ALL, EMULATED, 0, 0, "nop" },
		{ "call", "e8 00 00 00 00 c3", ALL, EMULATED, 0, 0, "call 0x0000000000000005" },
		{ "jmp rel32", "e9 10 00 00 00", ALL, EMULATED, 0, 0, NULL },
		{ "jmp rel8", "eb 10", ALL, EMULATED, 0, 0, NULL },
		{ "jcc rel8", "74 10 c3", ALL, EMULATED, 0, 0, NULL },
		{ "jcc rel32", "0f 84 10 00 00 00 c3", ALL, EMULATED, 0, 0, NULL },
		{ "even where the function jumps back to", "55 5d eb fc", ALL, EMULATED, 0, 0,
		  NULL },
	};

	expect(cases, ARRAY_SIZE(cases));
}

TEST(instructions_that_leave_the_probed_registers_unchanged_are_skipped)
{
	static const struct expectation cases[] = {
		{ "endbr64; push rbp", "f3 0f 1e fa 55 c3", ALL, EMULATED, 4, 0, "push %rbp" },
		{ "endbr64; nop", "f3 0f 1e fa 90 c3", ALL, EMULATED, 4, 0, "nop" },
		{ "mov rax,rdi; push rbx", "48 89 f8 53 c3", ALL, EMULATED, 3, 0, "push %rbx" },
		{ "lea; mov; push", "48 8d 47 08 49 89 f2 41 56 c3", ALL, EMULATED, 7, 0,
		  "push %r14" },
		{ "mov rax,fs:0x28; push", "64 48 8b 04 25 28 00 00 00 53 c3", ALL, EMULATED, 9, 0,
		  NULL },
		{ "test rdi,rdi; je", "48 85 ff 74 01 c3 c3", ALL, EMULATED, 3, 0, NULL },
		{ "xor eax,eax; jmp", "31 c0 e9 00 10 00 00", ALL, EMULATED, 2, 0, NULL },
		{ "load through an argument; push", "48 8b 07 53 c3", ALL, EMULATED, 3, 0, NULL },
		{ "nop5; push", "0f 1f 44 00 00 55 c3", ALL, EMULATED, 5, 0, "push %rbp" },
		{ "endbr64; nop5; push", "f3 0f 1e fa 0f 1f 44 00 00 55 c3", ALL, EMULATED, 9, 0,
		  "push %rbp" },
		{ "mov edi,edi with rdi not asked for; push", "89 ff 55 c3", SITE_RSI, EMULATED, 2,
		  0, NULL },
		{ "mov rcx,rdx; push, rcx not asked for", "48 89 d1 55 c3", SITE_RDI | SITE_RDX,
		  EMULATED, 3, 0, NULL },
	};

	expect(cases, ARRAY_SIZE(cases));
}

TEST(the_stack_pointer_is_followed)
{
	static const struct expectation cases[] = {
		{ "sub rsp,8; call", "48 83 ec 08 e8 00 00 00 00 c3", ALL, EMULATED, 4, 8, NULL },
		{ "sub rsp,0x128; push", "48 81 ec 28 01 00 00 53 c3", ALL, EMULATED, 7, 0x128,
		  NULL },
		{ "lea rsp,[rsp-0x98]; push", "48 8d a4 24 68 ff ff ff 53 c3", ALL, EMULATED, 8,
		  0x98, NULL },
		{ "add rsp,-128; push", "48 83 c4 80 53 c3", ALL, EMULATED, 4, 128, NULL },
		{ "sub; store to the frame; push", "48 83 ec 18 48 89 7c 24 08 53 c3", ALL,
		  EMULATED, 9, 0x18, NULL },
		{ "push imm8; push", "6a 01 53 c3", ALL, EMULATED, 2, 8, NULL },
		{ "push mem; push", "ff 37 53 c3", ALL, EMULATED, 2, 8, NULL },
		{ "sub; add; push", "48 83 ec 18 48 83 c4 18 53 c3", ALL, EMULATED, 8, 0, NULL },
		{ "red zone store; push", "48 89 7c 24 f8 53 c3", ALL, EMULATED, 5, 0, NULL },
		{ "and rsp,-32; push", "48 83 e4 e0 53 c3", ALL, STEPPED, 0, 0, NULL },
		{ "mov rsp,rax; push", "48 89 c4 53 c3", ALL, STEPPED, 0, 0, NULL },
		{ "sub rsp,rax; push", "48 29 c4 53 c3", ALL, STEPPED, 0, 0, NULL },
		{ "lea rsp,[rdi]; push", "48 8d 27 53 c3", ALL, STEPPED, 0, 0, NULL },
		{ "pop rax above the entry; push", "58 53 c3", ALL, STEPPED, 0, 0, NULL },
		{ "add rsp,8 above the entry; push", "48 83 c4 08 53 c3", ALL, STEPPED, 0, 0,
		  NULL },
		{ "enter; push", "c8 10 00 00 53 c3", ALL, STEPPED, 0, 0, NULL },
		{ "leave; push", "c9 53 c3", ALL, STEPPED, 0, 0, NULL },
		{ "push16 is no emulated push", "66 50 53 c3", ALL, EMULATED, 2, 2, NULL },
	};

	expect(cases, ARRAY_SIZE(cases));
}

TEST(an_overwritten_argument_is_never_passed)
{
	static const struct expectation cases[] = {
		{ "mov rdi,rsi; push", "48 89 f7 53 c3", SITE_RDI, STEPPED, 0, 0,
		  "mov %rsi, %rdi" },
		{ "mov edi,esi; push", "89 f7 53 c3", SITE_RDI, STEPPED, 0, 0, NULL },
		{ "mov dil,1; push", "40 b7 01 53 c3", SITE_RDI, STEPPED, 0, 0, NULL },
		{ "xor esi,esi; push", "31 f6 53 c3", SITE_RSI, STEPPED, 0, 0, NULL },
		{ "add rdx,1; push", "48 83 c2 01 53 c3", SITE_RDX, STEPPED, 0, 0, NULL },
		{ "mov dh,1; push", "b6 01 53 c3", SITE_RDX, STEPPED, 0, 0, NULL },
		{ "cqo writes rdx; push", "48 99 53 c3", SITE_RDX, STEPPED, 0, 0, NULL },
		{ "cqo without rdx; push", "48 99 53 c3", SITE_RDI, EMULATED, 2, 0, NULL },
		{ "mul writes rdx; push", "48 f7 e7 53 c3", SITE_RDX, STEPPED, 0, 0, NULL },
		{ "cpuid writes rcx; push", "0f a2 53 c3", SITE_RCX, STEPPED, 0, 0, NULL },
		{ "cmov may write rcx; push", "48 0f 44 cf 53 c3", SITE_RCX, STEPPED, 0, 0, NULL },
		{ "mov r8,rdi; push", "49 89 f8 53 c3", SITE_R8, STEPPED, 0, 0, NULL },
		{ "lea r9; push", "4c 8d 4f 08 53 c3", SITE_R9, STEPPED, 0, 0, NULL },
		{ "pop rdi; push", "48 83 ec 08 5f 53 c3", SITE_RDI, STEPPED, 0, 0, NULL },
		{ "xchg eax,esi; push", "96 53 c3", SITE_RSI, STEPPED, 0, 0, NULL },
		{ "mov edi,edi; push", "89 ff 53 c3", SITE_RDI, STEPPED, 0, 0, NULL },
		{ "movslq edi,rdi; push", "48 63 ff 53 c3", SITE_RDI, STEPPED, 0, 0, NULL },
		{ "mov di,si; push", "66 89 f7 53 c3", SITE_RDI, STEPPED, 0, 0, NULL },
		{ "rdsspq rdi; push", "f3 48 0f 1e cf 53 c3", SITE_RDI, STEPPED, 0, 0, NULL },
		{ "a store through fs at the stack pointer", "64 48 89 44 24 f8 53 c3", ALL,
		  STEPPED, 0, 0, NULL },
		{ "a store changes what an argument points to", "48 89 37 53 c3", ALL, STEPPED, 0,
		  0, NULL },
		{ "a store over the arguments on the stack", "48 89 7c 24 08 53 c3", ALL, STEPPED,
		  0, 0, NULL },
		{ "a store over the return address", "48 89 3c 24 53 c3", ALL, STEPPED, 0, 0,
		  NULL },
		{ "a repeated store", "f3 48 ab 53 c3", 0, REFUSED, 0, 0, NULL },
	};

	expect(cases, ARRAY_SIZE(cases));
}

struct moved {
	const char *what, *code;
	uint64_t arguments;
	uint32_t offset;
	uint8_t registers[SITE_ARGUMENTS];
};

TEST(an_argument_is_found_in_the_register_it_moved_to)
{
	enum {
		DI = REGISTER_RDI,
		SI = REGISTER_RSI,
		DX = REGISTER_RDX,
		CX = REGISTER_RCX,
		R8 = REGISTER_R8,
		R9 = REGISTER_R9
	};
	static const struct moved cases[] = {
		{ "not moved", "53 c3", ALL, 0, { DI, SI, DX, CX, R8, R9 } },
		{ "copied, and still there", "48 89 f8 53 c3", ALL, 3, { DI, SI, DX, CX, R8, R9 } },
		{ "mov rax,rdi; mov rdi,rsi; push",
		  "48 89 f8 48 89 f7 53 c3",
		  ALL,
		  6,
		  { REGISTER_RAX, SI, DX, CX, R8, R9 } },
		{ "endbr64; mov r12,rsi; xor esi,esi; push",
		  "f3 0f 1e fa 49 89 f4 31 f6 53 c3",
		  ALL,
		  9,
		  { DI, REGISTER_R12, DX, CX, R8, R9 } },
		{ "mov rbx,r8; mov r15,rbx; xor r8d,r8d; xor ebx,ebx; push",
		  "4c 89 c3 49 89 df 45 31 c0 31 db 53 c3",
		  ALL,
		  11,
		  { DI, SI, DX, CX, REGISTER_R15, R9 } },
		{ "xchg rax,rsi; push",
		  "48 96 53 c3",
		  ALL,
		  2,
		  { DI, REGISTER_RAX, DX, CX, R8, R9 } },
		{ "xchg rdi,rsi; push", "48 87 f7 53 c3", ALL, 3, { SI, DI, DX, CX, R8, R9 } },
		{ "rotated: mov rax,rdi; mov rdi,rsi; mov rsi,rdx; mov rdx,rax; push",
		  "48 89 f8 48 89 f7 48 89 d6 48 89 c2 53 c3",
		  SITE_RDI | SITE_RSI | SITE_RDX,
		  12,
		  { REGISTER_RAX, DI, SI, CX, R8, R9 } },
		{ "moved away and back",
		  "48 89 f8 31 ff 48 89 c7 53 c3",
		  ALL,
		  8,
		  { DI, SI, DX, CX, R8, R9 } },
		{ "lost, and not asked for",
		  "31 ff 53 c3",
		  SITE_RSI,
		  2,
		  { DI, SI, DX, CX, R8, R9 } },
		{ "a copy that is no more: mov rax,rdi; xor eax,eax; xor edi,edi; push",
		  "48 89 f8 31 c0 31 ff 53 c3",
		  ALL,
		  0,
		  { DI, SI, DX, CX, R8, R9 } },
		{ "a copy of 32 bits: mov eax,edi; xor edi,edi; push",
		  "89 f8 31 ff 53 c3",
		  ALL,
		  0,
		  { DI, SI, DX, CX, R8, R9 } },
		{ "a copy that is changed: mov rax,rdi; mov al,1; xor edi,edi; push",
		  "48 89 f8 b0 01 31 ff 53 c3",
		  ALL,
		  0,
		  { DI, SI, DX, CX, R8, R9 } },
		{ "a copy on a condition: cmove rax,rdi; xor edi,edi; push",
		  "48 0f 44 c7 31 ff 53 c3",
		  ALL,
		  0,
		  { DI, SI, DX, CX, R8, R9 } },
		{ "xadd is no exchange", "48 0f c1 f8 53 c3", ALL, 0, { DI, SI, DX, CX, R8, R9 } },
		{ "lea is no copy", "48 8d 47 08 31 ff 53 c3", ALL, 0, { DI, SI, DX, CX, R8, R9 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t bytes[64];
		size_t size = read_hex(cases[i].code, bytes, sizeof(bytes));
		struct site site;

		CHECK(site_choose(bytes, size, cases[i].arguments, &site) != SITE_REFUSED);
		if (site.offset != cases[i].offset ||
		    memcmp(site.argument_register, cases[i].registers,
			   sizeof(site.argument_register)))
			fprintf(stderr, "  %s:\n", cases[i].what);
		CHECK_EQ(site.offset, cases[i].offset);
		for (size_t j = 0; j < SITE_ARGUMENTS; j++)
			CHECK_EQ(site.argument_register[j], cases[i].registers[j]);
	}
}

TEST(a_loop_back_to_the_entry_is_reported)
{
	static const struct {
		const char *what, *code;
		bool may_repeat;
		uint32_t offset;
	} cases[] = {
		{ "no branch", "48 89 f8 c3", false, 0 },
		{ "mov; jmp to the entry", "48 89 f8 eb fb", true, 3 },
		{ "test; jne to the entry", "48 85 ff 75 fb c3", true, 3 },
		{ "a call of itself", "48 89 f8 e8 f8 ff ff ff c3", false, 3 },
		{ "the stack is as it was: push; pop; jmp to the entry", "53 5b eb fc", true, 0 },
		{ "a push that stays runs once for each call", "53 75 00 5b eb fa", false, 0 },
		{ "so does what runs into one", "48 89 f8 53 75 00 5b eb f7", false, 3 },
		{ "so does what comes before sub rsp", "48 83 ec 08 e8 f7 ff ff ff eb f5", false,
		  4 },
		{ "so does what comes before and rsp", "53 48 83 e4 e0 ff e0", false, 0 },
		{ "the stack is as it was: sub rsp; add rsp; jmp to the entry",
		  "48 83 ec 08 48 83 c4 08 eb f6", true, 8 },
		{ "a jump table may lead to the entry", "48 89 f8 ff e0", true, 0 },
		{ "a jump table behind a push may not", "55 ff e0", false, 0 },
		{ "one behind a push and its pop may", "55 5d ff e0", true, 0 },
		{ "a jump to where nobody knows may come back", "48 85 ff 0f 84 00 10 00 00 c3",
		  true, 0 },
		{ "a call in tail position does not", "48 85 ff e9 00 10 00 00", false, 3 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t bytes[64];
		size_t size = read_hex(cases[i].code, bytes, sizeof(bytes));
		struct site site;

		CHECK(site_choose(bytes, size, ALL, &site) != SITE_REFUSED);
		if (site.may_repeat != cases[i].may_repeat || site.offset != cases[i].offset)
			fprintf(stderr, "  %s:\n", cases[i].what);
		CHECK_EQ(site.may_repeat, cases[i].may_repeat);
		CHECK_EQ(site.offset, cases[i].offset);
	}
}

TEST(the_walk_ends_where_control_may_leave)
{
	static const struct expectation cases[] = {
		{ "ret", "c3 55", ALL, STEPPED, 0, 0, "ret" },
		{ "jmp rax; push", "ff e0 55 c3", ALL, STEPPED, 0, 0, NULL },
		{ "call [rdi]; push", "ff 17 55 c3", ALL, STEPPED, 0, 0, NULL },
		{ "jrcxz; push", "e3 10 55 c3", ALL, STEPPED, 0, 0, NULL },
		{ "mov; syscall; push", "b8 01 00 00 00 0f 05 55 c3", ALL, STEPPED, 0, 0, NULL },
		{ "mov; int3; push", "b8 01 00 00 00 cc 55 c3", ALL, STEPPED, 0, 0, NULL },
		{ "mov; ud2; push", "b8 01 00 00 00 0f 0b 55 c3", ALL, STEPPED, 0, 0, NULL },
		{ "no emulated instruction: mov; ret", "48 8b 07 c3", ALL, STEPPED, 0, 0,
		  "mov (%rdi), %rax" },
		{ "endbr64; mov; ret", "f3 0f 1e fa 48 8b 07 c3", ALL, STEPPED, 4, 0,
		  "mov (%rdi), %rax" },
		{ "endbr64; ret", "f3 0f 1e fa c3", ALL, STEPPED, 4, 0, "ret" },
	};

	expect(cases, ARRAY_SIZE(cases));
}

TEST(no_site_is_after_a_branch_target)
{
	static const struct expectation cases[] = {
		/* 0: mov eax,1  5: push rbx  6: pop rbx  7: jmp 5 */
		{ "jump to the push", "b8 01 00 00 00 53 5b eb fc c3", ALL, STEPPED, 0, 0, NULL },
		/* 0: mov eax,1  5: mov r10,rdi  8: push rbx  9: pop rbx  a: jne 5 */
		{ "jcc before the push", "b8 01 00 00 00 49 89 fa 53 5b 75 f9 c3", ALL, STEPPED, 0,
		  0, NULL },
		{ "jcc rel32 before the push", "b8 01 00 00 00 49 89 fa 53 5b 0f 85 f5 ff ff ff c3",
		  ALL, STEPPED, 0, 0, NULL },
		{ "jump after the push", "b8 01 00 00 00 53 5b 75 fd c3", ALL, EMULATED, 5, 0,
		  NULL },
		{ "jump to the entry", "b8 01 00 00 00 53 5b 75 f7 c3", ALL, EMULATED, 5, 0, NULL },
		{ "loop to the push", "b8 01 00 00 00 53 5b e2 fc c3", ALL, STEPPED, 0, 0, NULL },
		{ "call of the push", "b8 01 00 00 00 53 5b e8 f9 ff ff ff c3", ALL, STEPPED, 0, 0,
		  NULL },
		{ "endbr64 with a jump behind it", "f3 0f 1e fa 55 5d 75 fc c3", ALL, STEPPED, 0, 0,
		  "endbr64" },
		{ "a nop site when all jumps are known", "48 89 f8 90 c3", ALL, EMULATED, 3, 0,
		  "nop" },
		{ "a nop site with jumps that are not", "48 89 f8 90 ff e0", ALL, STEPPED, 0, 0,
		  NULL },
		{ "a push site with jumps that are not", "48 89 f8 53 ff e0", ALL, EMULATED, 3, 0,
		  NULL },
		{ "a push and its pop, with jumps that are not", "48 89 f8 53 5b ff e0", ALL,
		  STEPPED, 0, 0, NULL },
		{ "endbr64; then a site that unknown jumps may land on",
		  "f3 0f 1e fa 48 89 f8 ff e0", ALL, STEPPED, 0, 0, "endbr64" },
		{ "endbr64; sub rsp: no jump lands there", "f3 0f 1e fa 48 83 ec 08 ff e0", ALL,
		  STEPPED, 4, 0, NULL },
		{ "a nop that runs into a push", "48 89 f8 90 53 ff e0", ALL, EMULATED, 3, 0,
		  "nop" },
		{ "sub; call with unknown jumps: a loop may begin at the call",
		  "48 83 ec 08 e8 00 00 10 00 ff e0", ALL, STEPPED, 0, 0, NULL },
		{ "a part elsewhere may jump back: test; jne out; jmp",
		  "48 85 ff 0f 85 00 10 00 00 c3", ALL, STEPPED, 0, 0, NULL },
		{ "what a tail call jumps to does not: test; je; jmp out",
		  "48 85 ff 74 05 e9 00 10 00 00 c3", ALL, EMULATED, 3, 0, NULL },
		{ "a jump found after bytes that do not decode",
		  "b8 01 00 00 00 53 5b c3 06 06 eb f9", ALL, STEPPED, 0, 0, NULL },
	};

	expect(cases, ARRAY_SIZE(cases));
}

TEST(a_long_nop_is_a_site_at_the_entry_only)
{
	static const struct expectation cases[] = {
		{ "nop5; ret", "0f 1f 44 00 00 c3", ALL, STEPPED, 0, 0, NULL },
		{ "nop5 that is jumped back to", "0f 1f 44 00 00 75 f9 c3", ALL, EMULATED, 5, 0,
		  NULL },
		{ "nop5 that is jumped back to; ret", "0f 1f 44 00 00 c3 eb f8", ALL, STEPPED, 5, 0,
		  "ret" },
		{ "endbr64; nop5; ret", "f3 0f 1e fa 0f 1f 44 00 00 c3", ALL, STEPPED, 9, 0,
		  "ret" },
		{ "endbr64; nop5; red zone; ret", "f3 0f 1e fa 0f 1f 44 00 00 48 89 7c 24 f8 c3",
		  ALL, STEPPED, 9, 0, NULL },
		{ "red zone; nop5; ret", "48 89 7c 24 f8 0f 1f 44 00 00 c3", ALL, STEPPED, 0, 0,
		  NULL },
		{ "red zone; nop, nop5; ret", "48 89 7c 24 f8 90 0f 1f 44 00 00 c3", ALL, EMULATED,
		  5, 0, "nop" },
		{ "nop5 that unknown jumps may land on", "0f 1f 44 00 00 ff e0", ALL, REFUSED, 0, 0,
		  NULL },
		{ "lock; nop5; push", "f0 48 ff 07 0f 1f 44 00 00 55", ALL, REFUSED, 0, 0, NULL },
		{ "nop10 with a segment prefix; nop5; jmp",
		  "66 2e 0f 1f 84 00 00 00 00 00 0f 1f 44 00 00 e9 00 10 00 00", ALL, EMULATED, 15,
		  0, NULL },
		{ "two-byte nop; push", "66 90 55 c3", ALL, EMULATED, 2, 0, NULL },
	};

	expect(cases, ARRAY_SIZE(cases));
}

TEST(what_the_kernel_refuses_or_cannot_step_is_refused)
{
	static const struct expectation cases[] = {
		{ "lock inc", "f0 ff 07 c3", ALL, REFUSED, 0, 0, NULL },
		{ "int3", "cc c3", ALL, REFUSED, 0, 0, NULL },
		{ "int 0x80", "cd 80 c3", ALL, REFUSED, 0, 0, NULL },
		{ "hlt", "f4", ALL, REFUSED, 0, 0, NULL },
		{ "ud2", "0f 0b", ALL, REFUSED, 0, 0, NULL },
		{ "syscall", "0f 05 c3", ALL, REFUSED, 0, 0, NULL },
		{ "in", "ec", ALL, REFUSED, 0, 0, NULL },
		{ "notrack jmp", "3e ff e0", ALL, REFUSED, 0, 0, NULL },
		{ "mov ss", "8e d0", ALL, REFUSED, 0, 0, NULL },
		{ "rep movsb", "f3 a4 c3", ALL, REFUSED, 0, 0, NULL },
		{ "vmovdqu (its opcode is outs)", "c5 fe 6f 07 c3", ALL, STEPPED, 4, 0, "ret" },
		{ "vxorps", "c5 f8 57 c0 c3", ALL, STEPPED, 0, 0, NULL },
		{ "xchg rax,r8 (its opcode is nop); ret", "49 90 c3", ALL, STEPPED, 2, 0, "ret" },
		{ "xchg eax,r8d", "41 90 c3", 0, STEPPED, 2, 0, "ret" },
		{ "xchg rax,rcx", "48 91 c3", 0, STEPPED, 0, 0, NULL },
		{ "vpor (its opcode is jmp)", "c5 f9 eb c1 c3", ALL, STEPPED, 4, 0, "ret" },
		{ "vpcmpeqb (its opcode is je)", "c5 f9 74 c1 c3", ALL, STEPPED, 4, 0, "ret" },
		{ "vpord (with EVEX)", "62 f1 7d 08 eb c1 c3", ALL, STEPPED, 6, 0, "ret" },
		{ "vzeroupper (its opcode is ja)", "c5 f8 77 c3", ALL, STEPPED, 3, 0, "ret" },
		{ "por", "66 0f eb c1 c3", ALL, STEPPED, 0, 0, NULL },
		{ "movdqu", "f3 0f 6f 07 c3", ALL, STEPPED, 0, 0, NULL },
		{ "pushf", "9c c3", ALL, REFUSED, 0, 0, NULL },
		{ "refused, then one that is not: ss: mov; mov", "36 8b 07 89 f8 c3", ALL, STEPPED,
		  3, 0, NULL },
		{ "no code", "", ALL, REFUSED, 0, 0, NULL },
		{ "half an instruction", "48 83", ALL, REFUSED, 0, 0, NULL },
		{ "an opcode that is none in 64-bit mode", "06 55 c3", ALL, REFUSED, 0, 0, NULL },
		{ "code that ends in the middle", "48 89 f8 48", ALL, STEPPED, 0, 0, NULL },
	};

	expect(cases, ARRAY_SIZE(cases));
}

TEST(a_probe_at_the_return_is_placed_before_the_stack_pointer_moves)
{
	/* sub $24,%rsp; js; ret */
	static const uint8_t code[] = { 0x48, 0x83, 0xec, 0x18, 0x78, 0x00, 0xc3 };
	struct site site;

	CHECK_EQ(site_choose(code, sizeof(code), ALL, &site), SITE_EMULATED);
	CHECK_EQ(site.offset, 4);
	CHECK_EQ(site.stack_offset, 24);
	CHECK_EQ(site_choose(code, sizeof(code), ALL | SITE_AT_RETURN, &site), SITE_SINGLE_STEPPED);
	CHECK_EQ(site.offset, 0);
	CHECK_EQ(site.stack_offset, 0);
}

TEST(the_search_for_a_site_stays_near_the_entry)
{
	uint8_t code[400];
	struct site site;

	for (size_t i = 0; i + 2 <= sizeof(code); i += 2) {
		code[i] = 0x31; /* xor eax,eax */
		code[i + 1] = 0xc0;
	}
	code[sizeof(code) - 1] = 0x55;
	CHECK_EQ(site_choose(code, sizeof(code), ALL, &site), SITE_SINGLE_STEPPED);
	CHECK_EQ(site.offset, 0);
	code[90] = 0x55;
	CHECK_EQ(site_choose(code, sizeof(code), ALL, &site), SITE_EMULATED);
	CHECK_EQ(site.offset, 90);
}

static const char *behind_call_with(uint64_t mask, const char *code, struct site *ret)
{
	_cleanup_free_ uint8_t *exact = NULL;
	uint8_t bytes[256];
	size_t size = read_hex(code, bytes, sizeof(bytes));

	exact = malloc(size);
	memcpy(exact, bytes, size);
	site_choose_behind_call(exact, size, mask, ret);
	return ret->class == SITE_REFUSED ? ret->reason : ret->text;
}

static const char *behind_call(const char *code, struct site *ret)
{
	return behind_call_with(SITE_RDI, code, ret);
}

TEST(behind_a_call_a_register_holds_what_it_returned)
{
	struct site site;

	/* context_new_from_vars() of CPython 3.11: push, mov, push, push, call, mov, test, je. */
	CHECK_STR(behind_call(
			  "55 48 89 fd 53 51 e8 55 fe ff ff 48 89 c3 48 85 c0 74 11 48 83 45 00 01 "
			  "48 89 c7 48 89 68 18 e8 7c 7f e6 ff 48 89 d8 5a 5b 5d c3",
			  &site),
		  "jz 0x0000000000000024");
	CHECK_EQ(site.offset, 17);
	CHECK_EQ(site.stack_offset, 24);
	CHECK_EQ(site.argument_register[0], REGISTER_RAX);
	/* It was moved: call, mov %rax, %rbx, xor %eax, %eax, nop. */
	CHECK(strstr(behind_call("e8 00 01 00 00 48 89 c3 31 c0 90 c3", &site), "nop"));
	CHECK_EQ(site.argument_register[0], REGISTER_RBX);
	/* Lost before the nop; no call; a jump to between call and nop; one from elsewhere, maybe.
	 */
	CHECK(strstr(behind_call("e8 00 01 00 00 31 c0 90 c3", &site), "no emulated"));
	CHECK(strstr(behind_call("50 90 c3", &site), "no emulated"));
	CHECK(strstr(behind_call("e8 00 01 00 00 48 89 c3 90 eb fa", &site), "no emulated"));
	CHECK(strstr(behind_call("e8 00 01 00 00 90 0f 84 00 01 00 00 c3", &site),
		     "unknown targets"));
}

TEST(behind_a_call_a_site_needs_no_register_if_nothing_is_read)
{
	/* ov::InferRequest::infer() of OpenVINO 2026.4: push, push, push, sub, mov, mov, mov, xor,
	 * test, je, mov, call, mov, sub, jne, add, pop, pop, pop, ret; and where je and jne lead.
	 */
	static const char code[] =
		"41 54 55 53 48 81 ec b0 01 00 00 48 8b 3f 64 48 8b 04 25 28 00 00 00 48 89 84 24 "
		"a8 01 00 00 31 c0 48 85 ff 74 25 48 8b 07 ff 50 10 48 8b 84 24 a8 01 00 00 64 48 "
		"2b 04 25 28 00 00 00 75 0c 48 81 c4 b0 01 00 00 5b 5d 41 5c c3 0f 0b";
	struct site site;

	CHECK_STR(behind_call_with(0, code, &site), "jnz 0x000000000000004B");
	CHECK_EQ(site.offset, 61);
	CHECK_EQ(site.stack_offset, 0x1b0 + 24);
	CHECK(strstr(behind_call(code, &site), "no emulated"));
	/* je leads to between the call and the site. */
	CHECK(strstr(behind_call_with(0, "48 85 ff 74 05 e8 00 01 00 00 90 90 c3", &site),
		     "no emulated"));
}

static int64_t jump_of(const char *code)
{
	uint8_t bytes[64];
	size_t size = read_hex(code, bytes, sizeof(bytes));
	int64_t to;

	return site_find_jump(bytes, size, &to) ? to : 0;
}

TEST(a_jump_out_of_a_function_is_found)
{
	/* mov, jmp; and past a call and a conditional branch. */
	CHECK_EQ(jump_of("48 89 fe e9 00 01 00 00"), 0x108);
	CHECK_EQ(jump_of("56 e8 1a 00 00 00 48 85 c0 0f 84 29 6c e0 ff 59 e9 37 02 00 00"), 0x24c);
	/* Within the function, through a register, none. */
	CHECK_EQ(jump_of("eb 01 90 c3"), 0);
	CHECK_EQ(jump_of("ff e0"), 0);
	CHECK_EQ(jump_of("50 58 c3"), 0);
}

TEST(any_bytes_give_a_site_within_them)
{
	uint32_t random = 1;

	for (int round = 0; round < 20000; round++) {
		uint8_t code[48];
		struct site site;
		size_t size;

		for (size_t i = 0; i < sizeof(code); i++) {
			random = random * 1664525 + 1013904223;
			code[i] = (uint8_t)(random >> 24);
		}
		size = random % (sizeof(code) + 1);
		CHECK(site_find_form(code, size, 24) <= FORM_ADDRESS);
		if (site_choose(code, size, random >> 8, &site) != SITE_REFUSED)
			CHECK(site.offset + site.length <= size);
		else
			CHECK(site.reason != NULL);
	}
}

static enum site_class_form form(const char *code)
{
	_cleanup_free_ uint8_t *exact = NULL;
	uint8_t bytes[256];
	size_t size = read_hex(code, bytes, sizeof(bytes));

	exact = malloc(size);
	memcpy(exact, bytes, size);
	return site_find_form(exact, size, 24);
}

TEST(a_class_is_passed_by_address_where_its_byte_is_read_and_by_value_where_a_part_of_the_register_is)
{
	/* c10::AutogradState::set_tls_state() of PyTorch 2.11.0: behind two calls and a branch the
	 * byte is read through %rbx. */
	CHECK_EQ(
		form("55 53 48 89 fb 48 83 ec 18 48 8d 3d b8 2f 0d 00 e8 9b 23 ff ff 80 b8 00 00 00 00 00 "
		     "0f 84 06 01 00 00 0f b6 6b 10 0f b6 6b 18 83 e5 01 c3"),
		FORM_ADDRESS);
	/* That of 2.9.1: push %rbx, mov %edi, %ebx. */
	CHECK_EQ(form("53 89 fb 48 8d 3d 0e c4 0c 00 c3"), FORM_VALUE);
	CHECK_EQ(form("40 88 7c 24 ff c3"), FORM_VALUE);
	CHECK_EQ(form("0f b6 47 18 c3"), FORM_ADDRESS);
	/* Another place, a wider field, an element of a table. */
	CHECK_EQ(form("0f b6 47 10 c3"), FORM_UNKNOWN);
	CHECK_EQ(form("48 8b 47 18 c3"), FORM_UNKNOWN);
	CHECK_EQ(form("0f b6 44 07 18 c3"), FORM_UNKNOWN);
	/* After a call %rdi is another value; so it is once it is written. */
	CHECK_EQ(form("e8 00 01 00 00 0f b6 47 18 c3"), FORM_UNKNOWN);
	CHECK_EQ(form("31 ff 0f b6 47 18 c3"), FORM_UNKNOWN);
	/* xor 0x18(%rdi), %al; and $7, %ecx of a copy of the address, and test $7, %dil. */
	CHECK_EQ(form("32 47 18 c3"), FORM_ADDRESS);
	CHECK_EQ(form("48 89 f9 83 e1 07 0f b6 47 18 c3"), FORM_ADDRESS);
	CHECK_EQ(form("40 f6 c7 07 0f b6 47 18 c3"), FORM_ADDRESS);
	/* Behind a jump or the function's end nothing counts. */
	CHECK_EQ(form("eb 00 0f b6 47 18 c3"), FORM_UNKNOWN);
	CHECK_EQ(form("c3 0f b6 47 18"), FORM_UNKNOWN);
	CHECK_EQ(form("48 89"), FORM_UNKNOWN);
}

CHECK_MAIN()
