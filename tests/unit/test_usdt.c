/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/user.h>
#include <ucontext.h>

#include "include/tfprof.h"
#include "lib/base/macro.h"
#include "lib/elf/usdt.h"
#include "tests/unit/check.h"
#include "tests/unit/target_file.h"

#define SITES 32

struct found {
	struct usdt_site sites[SITES];
	char names[SITES][64]; /* "provider:name" */
	size_t n;
	int answer;
};

static int on_site(const struct usdt_site *site, void *data)
{
	struct found *found = data;

	if (found->n < SITES) {
		found->sites[found->n] = *site;
		snprintf(found->names[found->n], sizeof(found->names[0]), "%.30s:%.30s",
			 site->provider, site->name);
	}
	found->n++;
	return found->answer;
}

static int match_descriptor(int fd, const char *provider, const char *name, struct found *found,
			    const char **ret_reason)
{
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	int r = elf_image_open(fd, &image, ret_reason);

	return r < 0 ? r : elf_usdt_match(image, provider, name, on_site, found, ret_reason);
}

static int match_path(const char *path, const char *provider, const char *name, struct found *found)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : match_descriptor(fd, provider, name, found, NULL);
}

static int match_file(const struct target_file *file, size_t size, struct found *found,
		      const char **ret_reason)
{
	_cleanup_close_ int fd = elf_file_write(file, size);

	return match_descriptor(fd, NULL, NULL, found, ret_reason);
}

/* What this process has mapped at an address: the path, and the offset of the address in that file.
 */
static bool find_mapping(const void *address, char path[256], uint64_t *ret_offset)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t start, end, offset;
	bool found = false;
	char line[512];

	while (maps && !found && fgets(line, sizeof(line), maps)) {
		path[0] = 0;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %255[^\n]",
			   &start, &end, &offset, path) < 3)
			continue;
		found = (uintptr_t)address >= start && (uintptr_t)address < end;
		*ret_offset = offset + ((uintptr_t)address - start);
	}
	if (maps)
		fclose(maps);
	return found;
}

#ifdef __x86_64__

TFPROF_DEFINE_SEMAPHORE(tfprof_unit, guarded);

enum colour { RED, GREEN = 7 };
/* Where addresses of this program, which is position-independent, begin. */
extern char program_start[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));

static volatile int ten = 10;

__attribute__((noinline)) static void probe_registers(signed char a, unsigned char b, short c,
						      unsigned short d, int e, unsigned f)
{
	TFPROF_PROBE(tfprof_unit, narrow, a, b, c, d, e, f);
}

__attribute__((noinline)) static void probe_wide(long a, unsigned long b, const char *c,
						 enum colour d)
{
	TFPROF_PROBE(tfprof_unit, wide, a, b, c, d);
}

static inline __attribute__((always_inline)) void probe_inlined(int n)
{
	TFPROF_PROBE(tfprof_unit, inlined, n);
}

__attribute__((noinline)) static int probe_guarded(int n)
{
	TFPROF_PROBE_SEMAPHORE(tfprof_unit, guarded, n);
	return TFPROF_ENABLED(tfprof_unit, guarded);
}

/* Only the watcher reads what is stored here. */
__attribute__((noinline)) static void probe_stored(int n)
{
	int numbers[2] = { n, n + 1 };

	TFPROF_PROBE(tfprof_unit, stored, numbers);
}

/* The header never asks for memory, as others do. */
#undef TFPROF_OPERAND
#define TFPROF_OPERAND "m"
__attribute__((noinline)) static void probe_memory(signed char a, unsigned short b, int c, long d)
{
	TFPROF_PROBE(tfprof_unit, memory, a, b, c, d);
}

static void run_probes(void)
{
	TFPROF_PROBE(tfprof_unit, none);
	probe_registers((signed char)(ten - 11), (unsigned char)(ten + 190), (short)(ten - 310),
			(unsigned short)(ten + 60000), -7000 * ten, 400000000u * (unsigned)ten);
	probe_wide(-500000000l * ten, 1ul << 63 | (unsigned)ten, "text", (enum colour)(ten - 3));
	probe_memory((signed char)-ten, (unsigned short)(60000 + ten), -ten, 10000000000l * ten);
	probe_inlined(ten);
	probe_inlined(2 * ten);
	probe_inlined(-5);
	probe_guarded(3 * ten);
	probe_stored(4 * ten);
}

static struct found own;

static void find_own(void)
{
	own = (struct found){};
	CHECK_EQ(match_path("/proc/self/exe", "tfprof_unit", NULL, &own), 0);
	CHECK(own.n > 0 && own.n <= SITES);
}

static size_t count_own(const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < own.n; i++)
		n += !strcmp(own.names[i], name);
	return n;
}

TEST(all_sites_of_this_program_are_found_with_all_copies_of_inlined_ones)
{
	find_own();
	CHECK_EQ(count_own("tfprof_unit:none"), 1);
	CHECK_EQ(count_own("tfprof_unit:narrow"), 1);
	CHECK_EQ(count_own("tfprof_unit:wide"), 1);
	CHECK_EQ(count_own("tfprof_unit:memory"), 1);
	CHECK_EQ(count_own("tfprof_unit:inlined"), 3);
	CHECK_EQ(count_own("tfprof_unit:guarded"), 1);
	CHECK_EQ(count_own("tfprof_unit:stored"), 1);
	CHECK_EQ(own.n, 9);
}

TEST(offsets_of_sites_and_semaphores_are_those_that_the_kernel_has_mapped)
{
	find_own();
	for (size_t i = 0; i < own.n && i < SITES; i++) {
		const struct usdt_site *site = &own.sites[i];
		const uint8_t *code = (const uint8_t *)program_start + site->address;
		char path[256];
		uint64_t offset = 0;

		CHECK(find_mapping(code, path, &offset));
		CHECK_EQ(site->offset, offset);
		CHECK_EQ(*code, 0x90);
		CHECK_EQ(!!site->semaphore_address, !strcmp(own.names[i], "tfprof_unit:guarded"));
		CHECK_EQ(!!site->semaphore, !!site->semaphore_address);
		if (!site->semaphore)
			continue;
		CHECK(program_start + site->semaphore_address ==
		      (const char *)&tfprof_tfprof_unit_guarded_semaphore);
		CHECK(find_mapping((const void *)&tfprof_tfprof_unit_guarded_semaphore, path,
				   &offset));
		CHECK_EQ(site->semaphore, offset);
	}
}

TEST(a_probe_is_enabled_while_its_semaphore_is_raised)
{
	CHECK_EQ(probe_guarded(0), 0);
	tfprof_tfprof_unit_guarded_semaphore++;
	CHECK_EQ(probe_guarded(0), 1);
	tfprof_tfprof_unit_guarded_semaphore--;
	CHECK_EQ(probe_guarded(0), 0);
}

/* The registers of a signal's context by their place in struct pt_regs. */
static const int context_register[] = {
	[USDT_R15] = REG_R15, [USDT_R14] = REG_R14, [USDT_R13] = REG_R13, [USDT_R12] = REG_R12,
	[USDT_RBP] = REG_RBP, [USDT_RBX] = REG_RBX, [USDT_R11] = REG_R11, [USDT_R10] = REG_R10,
	[USDT_R9] = REG_R9,   [USDT_R8] = REG_R8,   [USDT_RAX] = REG_RAX, [USDT_RCX] = REG_RCX,
	[USDT_RDX] = REG_RDX, [USDT_RSI] = REG_RSI, [USDT_RDI] = REG_RDI, [USDT_RIP] = REG_RIP,
	[USDT_RSP] = REG_RSP,
};

static int64_t read_argument(const struct usdt_argument *argument, const ucontext_t *context)
{
	const greg_t *registers = context->uc_mcontext.gregs;
	size_t size = (size_t)(argument->size < 0 ? -argument->size : argument->size);
	unsigned shift = 64 - 8 * (unsigned)size;
	uint64_t value = 0;
	const char *address;

	switch (argument->kind) {
	case USDT_CONSTANT:
		return argument->value;
	case USDT_REGISTER:
		value = (uint64_t)registers[context_register[argument->base]] >> argument->shift;
		break;
	case USDT_MEMORY:
		address =
			(const char *)registers[context_register[argument->base]] + argument->value;
		if (argument->index != USDT_NO_REGISTER)
			address += registers[context_register[argument->index]] * argument->scale;
		memcpy(&value, address, size);
		break;
	default:
		return INT64_MIN;
	}
	return argument->size < 0 ? (int64_t)(value << shift) >> shift
				  : (int64_t)(value << shift >> shift);
}

static char trace[1024];

/* Imitates the kernel's uprobe: writes the values of the arguments of the site that was hit. */
static void on_trap(int number, siginfo_t *info, void *data)
{
	const ucontext_t *context = data;
	uint64_t address =
		(uint64_t)context->uc_mcontext.gregs[REG_RIP] - 1 - (uintptr_t)program_start;

	for (size_t i = 0; i < own.n; i++) {
		const struct usdt_site *site = &own.sites[i];
		size_t length = strlen(trace);

		if (site->address != address)
			continue;
		length += (size_t)snprintf(trace + length, sizeof(trace) - length, "%s",
					   strchr(own.names[i], ':') + 1);
		for (unsigned j = 0; j < site->n_arguments; j++)
			length += (size_t)snprintf(trace + length, sizeof(trace) - length,
						   " %" PRId64,
						   read_argument(&site->arguments[j], context));
		if (strstr(own.names[i], ":stored")) {
			const int *numbers =
				(const int *)read_argument(&site->arguments[0], context);

			length = (size_t)(strrchr(trace, ' ') - trace);
			length += (size_t)snprintf(trace + length, sizeof(trace) - length,
						   " [%d %d]", numbers[0], numbers[1]);
		}
		snprintf(trace + length, sizeof(trace) - length, "\n");
	}
}

/* Puts a breakpoint, or the nop back, at every site, which is one byte. */
static bool plant(uint8_t opcode)
{
	for (size_t i = 0; i < own.n; i++) {
		volatile uint8_t *code = (volatile uint8_t *)program_start + own.sites[i].address;
		uint8_t *page = (uint8_t *)((uintptr_t)code & ~4095ul);

		if (mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) < 0)
			return false;
		*code = opcode;
		mprotect(page, 4096, PROT_READ | PROT_EXEC);
	}
	return true;
}

TEST(arguments_are_where_the_notes_describe_them)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO }, before;
	char expected[1024];

	find_own();
	trace[0] = 0;
	sigaction(SIGTRAP, &action, &before);
	CHECK(plant(0xcc));
	run_probes();
	CHECK(plant(0x90));
	sigaction(SIGTRAP, &before, NULL);
	/* The address of the text is known only here. */
	CHECK(strstr(trace, "\nwide "));
	snprintf(
		expected, sizeof(expected),
		"none\nnarrow -1 200 -300 60010 -70000 4000000000\nwide -5000000000 %" PRId64
		" %" PRId64 " 7\n"
		"memory -10 60010 -10 100000000000\ninlined 10\ninlined 20\ninlined -5\nguarded 30\nstored [40 41]\n",
		(int64_t)(1ul << 63 | 10), (int64_t)(uintptr_t) "text");
	CHECK_STR(trace, expected);
}

TEST(providers_and_names_match_as_a_whole)
{
	struct found found = {};

	CHECK_EQ(match_path("/proc/self/exe", "tfprof_unit", "narrow", &found), 0);
	CHECK_EQ(found.n, 1);
	CHECK_EQ(match_path("/proc/self/exe", "tfprof_*", "?i*e", &found), 0);
	CHECK_EQ(found.n, 2);
	CHECK_STR(found.names[1], "tfprof_unit:wide");
	CHECK_EQ(match_path("/proc/self/exe", "tfprof_uni", NULL, &found), 0);
	CHECK_EQ(match_path("/proc/self/exe", NULL, "narro", &found), 0);
	CHECK_EQ(found.n, 2);
	CHECK_EQ(match_path("/proc/self/exe", "", NULL, &found), -EINVAL);
	CHECK_EQ(match_path("/proc/self/exe", NULL, "", &found), -EINVAL);
}

#endif

/* It has three sites, and needs g++, which Debian's build tools bring. */
TEST(the_probes_of_the_standard_library_of_cplusplus_are_found)
{
	void *library = dlopen("libstdc++.so.6", RTLD_NOW),
	     *function = library ? dlsym(library, "__cxa_throw") : NULL;
	struct found found = {};
	char path[256] = "";
	uint64_t offset = 0;

	CHECK(function && find_mapping(function, path, &offset));
	CHECK_EQ(match_path(path, "libstdcxx", "throw", &found), 0);
	CHECK_EQ(found.n, 1);
	/* It is in __cxa_throw, and hands on what that one was given: the object and its type. */
	CHECK(found.sites[0].offset >= offset && found.sites[0].offset < offset + 256);
	CHECK_EQ(found.sites[0].n_arguments, 2);
	CHECK(found.sites[0].arguments[0].kind == USDT_REGISTER &&
	      found.sites[0].arguments[0].size == 8);
	CHECK_EQ(match_path(path, NULL, "catch", &found), 0);
	CHECK_EQ(match_path(path, NULL, "rethrow", &found), 0);
	CHECK_EQ(found.n, 3);
	CHECK_STR(found.names[1], "libstdcxx:catch");
	CHECK_EQ(found.sites[1].n_arguments, 2);
	if (library)
		dlclose(library);
}

/* A debugger's view of the registers has the order of the kernel's struct pt_regs. */
#define IS_WORD(member, number)                                                                    \
	_Static_assert(offsetof(struct user_regs_struct, member) == 8 * (number), #member)
IS_WORD(r15, USDT_R15);
IS_WORD(r12, USDT_R12);
IS_WORD(rbp, USDT_RBP);
IS_WORD(rbx, USDT_RBX);
IS_WORD(r11, USDT_R11);
IS_WORD(r8, USDT_R8);
IS_WORD(rax, USDT_RAX);
IS_WORD(rcx, USDT_RCX);
IS_WORD(rdx, USDT_RDX);
IS_WORD(rsi, USDT_RSI);
IS_WORD(rdi, USDT_RDI);
IS_WORD(rip, USDT_RIP);
IS_WORD(rsp, USDT_RSP);

#define NONE USDT_NO_REGISTER

TEST(arguments_are_read_as_the_assembler_would)
{
	static const struct {
		const char *text;
		struct usdt_argument argument;
		const char *symbol;
	} cases[] = {
		{ "-4@%edi", { USDT_REGISTER, 0, -4, 0, 0, USDT_RDI, NONE } },
		{ "8@%rax", { USDT_REGISTER, 0, 8, 0, 0, USDT_RAX, NONE } },
		{ "8@%rip", { USDT_REGISTER, 0, 8, 0, 0, USDT_RIP, NONE } },
		{ "1@%al", { USDT_REGISTER, 0, 1, 0, 0, USDT_RAX, NONE } },
		{ "-1@%ch", { USDT_REGISTER, 0, -1, 8, 0, USDT_RCX, NONE } },
		{ "1@%sil", { USDT_REGISTER, 0, 1, 0, 0, USDT_RSI, NONE } },
		{ "2@%bp", { USDT_REGISTER, 0, 2, 0, 0, USDT_RBP, NONE } },
		{ "1@%spl", { USDT_REGISTER, 0, 1, 0, 0, USDT_RSP, NONE } },
		{ "8@%r8", { USDT_REGISTER, 0, 8, 0, 0, USDT_R8, NONE } },
		{ "4@%r10d", { USDT_REGISTER, 0, 4, 0, 0, USDT_R10, NONE } },
		{ "8@%r11", { USDT_REGISTER, 0, 8, 0, 0, USDT_R11, NONE } },
		{ "8@%r12", { USDT_REGISTER, 0, 8, 0, 0, USDT_R12, NONE } },
		{ "8@%r13", { USDT_REGISTER, 0, 8, 0, 0, USDT_R13, NONE } },
		{ "8@%r14", { USDT_REGISTER, 0, 8, 0, 0, USDT_R14, NONE } },
		{ "-2@%r15w", { USDT_REGISTER, 0, -2, 0, 0, USDT_R15, NONE } },
		{ "1@%r9b", { USDT_REGISTER, 0, 1, 0, 0, USDT_R9, NONE } },
		{ "4@$5", { USDT_CONSTANT, 0, 4, 0, 0, NONE, NONE, 5 } },
		{ "-4@$-5", { USDT_CONSTANT, 0, -4, 0, 0, NONE, NONE, -5 } },
		{ "1@$-56", { USDT_CONSTANT, 0, 1, 0, 0, NONE, NONE, 200 } },
		{ "4@$-294967296", { USDT_CONSTANT, 0, 4, 0, 0, NONE, NONE, 4000000000 } },
		{ "-4@$0xffffffff", { USDT_CONSTANT, 0, -4, 0, 0, NONE, NONE, -1 } },
		{ "8@$017", { USDT_CONSTANT, 0, 8, 0, 0, NONE, NONE, 15 } },
		{ "-8@$-9223372036854775808",
		  { USDT_CONSTANT, 0, -8, 0, 0, NONE, NONE, INT64_MIN } },
		{ "8@$18446744073709551615", { USDT_CONSTANT, 0, 8, 0, 0, NONE, NONE, -1 } },
		{ "1@-12(%rbp)", { USDT_MEMORY, 0, 1, 0, 0, USDT_RBP, NONE, -12 } },
		{ "8@(%rdi)", { USDT_MEMORY, 0, 8, 0, 0, USDT_RDI, NONE } },
		{ "8@(%rdi,%rcx,8)", { USDT_MEMORY, 0, 8, 0, 8, USDT_RDI, USDT_RCX } },
		{ "8@(%rdi,%rcx)", { USDT_MEMORY, 0, 8, 0, 1, USDT_RDI, USDT_RCX } },
		{ "8@0x10(,%r12,4)", { USDT_MEMORY, 0, 8, 0, 4, NONE, USDT_R12, 16 } },
		{ "-4@-4+8-20(%rsp)", { USDT_MEMORY, 0, -4, 0, 0, USDT_RSP, NONE, -16 } },
		{ "8@%fs:0x28", { USDT_MEMORY, USDT_FS, 8, 0, 0, NONE, NONE, 40 } },
		{ "8@%gs:-8(%rax,%rbx,2)",
		  { USDT_MEMORY, USDT_GS, 8, 0, 2, USDT_RAX, USDT_RBX, -8 } },
		{ "4@nr(%rip)", { USDT_SYMBOL, 0, 4, 0, 0, NONE, NONE }, "nr" },
		{ "8@16+sym(%rip)", { USDT_SYMBOL, 0, 8, 0, 0, NONE, NONE, 16 }, "sym" },
		{ "8@_ZL3sym.0-16(%rip)",
		  { USDT_SYMBOL, 0, 8, 0, 0, NONE, NONE, -16 },
		  "_ZL3sym.0" },
		{ "4@table(,%rax,4)", { USDT_SYMBOL, 0, 4, 0, 4, NONE, USDT_RAX }, "table" },
		{ "4@table+4(%rbx)", { USDT_SYMBOL, 0, 4, 0, 0, USDT_RBX, NONE, 4 }, "table" },
		{ "4@table", { USDT_SYMBOL, 0, 4, 0, 0, NONE, NONE }, "table" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct usdt_argument found[USDT_ARGUMENTS_MAX], *a = &found[0];
		const struct usdt_argument *expected = &cases[i].argument;
		size_t symbol_length = cases[i].symbol ? strlen(cases[i].symbol) : 0;
		bool same;

		CHECK_EQ(usdt_arguments_parse(cases[i].text, found), 1);
		same = a->kind == expected->kind && a->segment == expected->segment &&
		       a->size == expected->size && a->shift == expected->shift &&
		       a->scale == expected->scale && a->base == expected->base &&
		       a->index == expected->index && a->value == expected->value &&
		       !a->symbol == !cases[i].symbol && a->symbol_length == symbol_length &&
		       (!a->symbol || !memcmp(a->symbol, cases[i].symbol, symbol_length));
		if (!same)
			fprintf(stderr, "  %s: kind %d, base %d, index %d, value %" PRId64 "\n",
				cases[i].text, a->kind, a->base, a->index, a->value);
		CHECK(same);
	}
}

TEST(an_argument_that_is_not_understood_does_not_affect_its_neighbors)
{
	static const char *const cases[] = {
		"%eax",
		"4%eax",
		"4@",
		"@%eax",
		"3@%eax",
		"16@%xmm0",
		"4f@%xmm0",
		"8@%xmm0",
		"4@%eaxx",
		"4@%r16",
		"4@%r07",
		"4@%r7",
		"4@%r8q",
		"4@%",
		"4@%st(0)",
		"4@$",
		"4@$sym",
		"4@$5x",
		"4@$0x",
		"4@$08",
		"4@$-",
		"4@$1+",
		"4@(%eax)",
		"4@(%rax",
		"4@()",
		"4@(,)",
		"4@(%rax,)",
		"4@(%rax,%rsp)",
		"4@(%rax,%rcx,3)",
		"4@(%rax,%rcx,)",
		"4@(rax)",
		"4@8(%rip)",
		"4@(%rip)",
		"4@s(%rip,%rax)",
		"4@s@tpoff(%rax)",
		"4@-s(%rip)",
		"4@a+b(%rip)",
		"4@(%rax)x",
		"4@%fs:",
		"4@%es:(%rax)",
		"--4@%eax",
		"+4@%eax",
		"4@%eax,8@%rax",
		"8@%fs:s@tpoff",
		"4@$18446744073709551616",
		"4@99999999999999999999(%rax)",
		"4@-9223372036854775809(%rax)",
		"04x@%eax",
		"8@%eax%eax",
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct usdt_argument found[USDT_ARGUMENTS_MAX];
		char text[128];

		snprintf(text, sizeof(text), " 4@$1  %s\t8@%%rdx ", cases[i]);
		CHECK_EQ(usdt_arguments_parse(text, found), 3);
		if (found[1].kind != USDT_UNKNOWN)
			fprintf(stderr, "  %s\n", cases[i]);
		CHECK_EQ(found[0].kind, USDT_CONSTANT);
		CHECK_EQ(found[1].kind, USDT_UNKNOWN);
		CHECK(!found[1].symbol && !found[1].size && found[1].base == NONE);
		CHECK_EQ(found[2].base, USDT_RDX);
	}
}

TEST(no_more_than_twelve_arguments_are_read)
{
	struct usdt_argument found[USDT_ARGUMENTS_MAX];

	CHECK_EQ(usdt_arguments_parse("", found), 0);
	CHECK_EQ(usdt_arguments_parse("   ", found), 0);
	CHECK_EQ(usdt_arguments_parse(
			 "1@$1 1@$2 1@$3 1@$4 1@$5 1@$6 1@$7 1@$8 1@$9 1@$10 1@$11 1@$12 1@$13",
			 found),
		 12);
	CHECK_EQ(found[11].value, 12);
}

TEST(sites_and_semaphores_are_offsets_of_the_file)
{
	struct target_file file;
	struct found found = {};

	target_file_make(&file);
	CHECK_EQ(match_file(&file, sizeof(file), &found, NULL), 0);
	CHECK_EQ(found.n, 2);
	CHECK_STR(found.names[0], "server:batch");
	CHECK_STR(found.names[1], "server:done");
	CHECK_EQ(found.sites[0].address, ELF_FILE_ADDRESS + TARGET_FILE_PROBE_AT);
	CHECK_EQ(found.sites[0].offset, offsetof(struct elf_file, code) + TARGET_FILE_PROBE_AT);
	CHECK_EQ(found.sites[0].semaphore, offsetof(struct target_file, data.semaphore));
	CHECK_EQ(found.sites[0].n_arguments, 2);
	CHECK_EQ(found.sites[1].semaphore_address, 0);
	CHECK_EQ(found.sites[1].semaphore, 0);
	CHECK_EQ(found.sites[1].n_arguments, 0);
}

TEST(a_file_that_prelink_moved_is_read_at_its_new_addresses)
{
	struct target_file file;
	struct found found = {};

	target_file_make(&file);
	for (size_t i = 0; i < ARRAY_SIZE(file.notes); i++) {
		file.notes[i].address -= 0x400000;
		file.notes[i].base -= 0x400000;
	}
	file.notes[0].semaphore -= 0x400000;
	CHECK_EQ(match_file(&file, sizeof(file), &found, NULL), 0);
	CHECK_EQ(found.n, 2);
	CHECK_EQ(found.sites[0].address, ELF_FILE_ADDRESS + TARGET_FILE_PROBE_AT);
	CHECK_EQ(found.sites[0].semaphore, offsetof(struct target_file, data.semaphore));
	CHECK_EQ(found.sites[1].semaphore_address, 0);
	/* The distance is not recorded. */
	file.sections[TARGET_FILE_BASE].sh_name = 0;
	CHECK_EQ(match_file(&file, sizeof(file), &found, NULL), 0);
	CHECK_EQ(found.n, 2);
}

TEST(a_semaphore_that_the_kernel_cannot_raise_is_recognized)
{
	for (int i = 0; i < 6; i++) {
		struct target_file file;
		struct found found = {};

		target_file_make(&file);
		switch (i) {
		case 0:
			file.notes[0].semaphore = ELF_FILE_ADDRESS;
			break;
		case 1:
			file.notes[0].semaphore++;
			break;
		case 2:
			file.notes[0].semaphore += sizeof(file.data) - 1;
			break;
		case 3:
			file.notes[0].semaphore = UINT64_MAX;
			break;
		case 4:
			file.segments[ELF_FILE_SEGMENTS].p_filesz = 1;
			break;
		case 5:
			file.segments[ELF_FILE_SEGMENTS].p_flags = PF_R;
			break;
		}
		CHECK_EQ(match_file(&file, sizeof(file), &found, NULL), 0);
		CHECK_EQ(found.n, 2);
		CHECK(found.sites[0].semaphore_address);
		CHECK_EQ(found.sites[0].semaphore, 0);
	}
}

TEST(sites_outside_code_and_other_notes_are_skipped)
{
	for (int i = 0; i < 7; i++) {
		struct target_file file;
		struct found found = {};

		target_file_make(&file);
		switch (i) {
		case 0:
			file.notes[0].address = 0;
			break;
		case 1:
			file.notes[0].address = TARGET_FILE_DATA_ADDRESS;
			break;
		case 2:
			file.notes[0].address = UINT64_MAX;
			break;
		case 3:
			file.notes[0].address = ELF_FILE_ADDRESS + 256;
			break;
		case 4:
			file.notes[0].head.n_type = 4;
			break;
		case 5:
			file.notes[0].owner[0] = 'S';
			break;
		case 6:
			file.notes[0].head.n_namesz = 7;
			break;
		}
		CHECK_EQ(match_file(&file, sizeof(file), &found, NULL), 0);
		CHECK_EQ(found.n, 1);
		CHECK_STR(found.names[0], "server:done");
	}
}

TEST(malformed_notes_are_refused_with_an_error_and_a_reason)
{
	static const struct {
		const char *what;
		int error;
	} cases[] = {
		{ "a name of 4 GiB", -EBADMSG },
		{ "a description of 4 GiB", -EBADMSG },
		{ "a description that ends past the section", -EBADMSG },
		{ "a description shorter than its addresses", -EBADMSG },
		{ "a description without strings", -EBADMSG },
		{ "a provider without end", -EBADMSG },
		{ "arguments without end", -EBADMSG },
		{ "half a note at the end", -EBADMSG },
		{ "notes outside the file", -EBADMSG },
		{ "notes at 16 EiB", -EBADMSG },
		{ "notes of 16 EiB", -EBADMSG },
		{ "compressed notes", -EBADMSG },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct target_file file;
		struct target_file_note *note = &file.notes[1];
		Elf64_Shdr *notes = &file.sections[TARGET_FILE_NOTES];
		struct found found = {};
		const char *reason = NULL;
		int r;

		target_file_make(&file);
		switch (i) {
		case 0:
			note->head.n_namesz = UINT32_MAX;
			break;
		case 1:
			note->head.n_descsz = UINT32_MAX;
			break;
		case 2:
			note->head.n_descsz++;
			break;
		case 3:
			note->head.n_descsz = 23;
			break;
		case 4:
			note->head.n_descsz = 24;
			break;
		case 5:
			memset(note->strings, 'x', sizeof(note->strings));
			break;
		case 6:
			memset(note->strings + 12, 'x', sizeof(note->strings) - 12);
			break;
		case 7:
			notes->sh_size = sizeof(*note) + 11;
			break;
		case 8:
			notes->sh_offset = sizeof(file) - sizeof(file.notes) + 1;
			break;
		case 9:
			notes->sh_offset = UINT64_MAX;
			break;
		case 10:
			notes->sh_size = UINT64_MAX;
			break;
		case 11:
			notes->sh_flags = SHF_COMPRESSED;
			break;
		}
		r = match_file(&file, sizeof(file), &found, &reason);
		if (r != cases[i].error || !reason || found.n)
			fprintf(stderr, "  %s:\n", cases[i].what);
		CHECK_EQ(r, cases[i].error);
		CHECK(reason && *reason);
		CHECK_EQ(found.n, 0);
	}
}

/* A note of 12 bytes in its head, 8 of owner, 24 of addresses and 4 of empty strings is as short as
 * one can be. */
struct short_note {
	Elf64_Nhdr head;
	char owner[8];
	uint8_t description[28];
};

static int match_many(size_t n_notes, size_t *ret_found, const char **ret_reason)
{
	size_t size = sizeof(struct target_file) + n_notes * sizeof(struct short_note);
	_cleanup_free_ uint8_t *bytes = calloc(1, size);
	struct target_file *file = (struct target_file *)bytes;
	struct short_note *notes = (struct short_note *)(file + 1);
	const uint64_t address = ELF_FILE_ADDRESS + TARGET_FILE_PROBE_AT;
	_cleanup_close_ int fd = -1;
	struct found found = {};
	int r;

	CHECK(bytes);
	if (!bytes)
		return -ENOMEM;
	target_file_make(file);
	for (size_t i = 0; i < n_notes; i++) {
		notes[i] = (struct short_note){ .head = { 8, sizeof(notes[i].description), 3 },
						.owner = "stapsdt" };
		memcpy(notes[i].description, &address, sizeof(address));
	}
	file->sections[TARGET_FILE_NOTES].sh_offset = sizeof(*file);
	file->sections[TARGET_FILE_NOTES].sh_size = n_notes * sizeof(*notes);
	fd = elf_file_write(bytes, size);
	r = match_descriptor(fd, "*", "*", &found, ret_reason);
	*ret_found = found.n;
	return r;
}

TEST(the_number_of_sites_is_limited)
{
	const char *reason = NULL;
	size_t n;

	CHECK_EQ(match_many(USDT_SITES_MAX, &n, &reason), 0);
	CHECK_EQ(n, USDT_SITES_MAX);
	CHECK(!reason);
	CHECK_EQ(match_many(USDT_SITES_MAX + 1, &n, &reason), -E2BIG);
	CHECK_EQ(n, 0);
	CHECK(reason);
}

TEST(the_size_of_the_notes_is_limited)
{
	struct target_file file;
	struct found found = {};
	const char *reason = NULL;

	for (int i = 0; i < 2; i++) {
		_cleanup_close_ int fd = -1;

		/* A hole reads as notes without owner. */
		target_file_make(&file);
		file.sections[TARGET_FILE_NOTES].sh_offset = sizeof(file);
		file.sections[TARGET_FILE_NOTES].sh_size = USDT_NOTES_MAX / 12 * 12 + (i ? 24 : 0);
		fd = elf_file_write(&file, sizeof(file));
		CHECK_EQ(ftruncate(fd, USDT_NOTES_MAX + (1 << 20)), 0);
		CHECK_EQ(match_descriptor(fd, NULL, NULL, &found, &reason), i ? -E2BIG : 0);
		CHECK_EQ(!!reason, i);
	}
	CHECK_EQ(found.n, 0);
}

TEST(a_file_without_a_section_of_the_name_has_no_sites)
{
	for (int i = 0; i < 8; i++) {
		struct target_file file;
		struct found found = {};

		target_file_make(&file);
		switch (i) {
		case 0:
			file.elf.header.e_shstrndx = 0;
			break;
		case 1:
			file.elf.header.e_shoff = 0;
			break;
		case 2:
			file.sections[TARGET_FILE_NOTES].sh_name = 2;
			break;
		case 3:
			file.sections[TARGET_FILE_NOTES].sh_name = UINT32_MAX;
			break;
		case 4:
			file.sections[TARGET_FILE_NAMES].sh_offset = sizeof(file);
			break;
		case 5:
			file.elf.header.e_shstrndx = TARGET_FILE_SECTIONS;
			break;
		case 6:
			file.elf.header.e_shstrndx = TARGET_FILE_NOTES;
			break;
		case 7:
			file.elf.header.e_shstrndx = SHN_XINDEX,
			file.sections[0].sh_link = UINT32_MAX;
			break;
		}
		CHECK_EQ(match_file(&file, sizeof(file), &found, NULL), 0);
		CHECK_EQ(found.n, 0);
	}
}

TEST(the_callback_can_end_the_match)
{
	struct found found = { .answer = 7 };
	struct target_file file;

	target_file_make(&file);
	CHECK_EQ(match_file(&file, sizeof(file), &found, NULL), 7);
	CHECK_EQ(found.n, 1);
}

CHECK_MAIN()
