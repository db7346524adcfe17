/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sites/red_zone.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/base/macro.h"
#include "tests/sites/child.h"
#include "tests/sites/library.h"

#define CALLS 5000
#define NOP5 "	.byte 0x0f, 0x1f, 0x44, 0, 0\n"
#define SAVE                                                                                       \
	"	mov %rdi, -8(%rsp)\n"                                                                    \
	"	mov %rdi, -16(%rsp)\n"                                                                   \
	"	mov %rdi, -24(%rsp)\n"                                                                   \
	"	mov %rdi, -32(%rsp)\n"
#define SUM                                                                                        \
	"	mov -8(%rsp), %rax\n"                                                                    \
	"	add -16(%rsp), %rax\n"                                                                   \
	"	add -24(%rsp), %rax\n"                                                                   \
	"	add -32(%rsp), %rax\n"                                                                   \
	"	ret\n"
#define FUNCTION(name, body)                                                                       \
	__asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" body           \
		".size " #name ", .-" #name "\n");                                                 \
	uint64_t name(uint64_t value, uint64_t loops)

/* Each returns its first argument four times; where it loops, it goes over the nop with the data in
 * place. */
FUNCTION(zone_inside, SAVE NOP5 SUM);
FUNCTION(zone_behind_endbr64, "	endbr64\n1:" NOP5 "	test %rsi, %rsi\n	je 2f\n" SAVE
			      "	dec %rsi\n	jmp 1b\n2:" SUM);
FUNCTION(zone_loop_to_entry, NOP5 "	test %rsi, %rsi\n	je 2f\n" SAVE
				  "	dec %rsi\n	jmp zone_loop_to_entry\n2:" SUM);
FUNCTION(zone_jump_table,
	 NOP5 "	test %rsi, %rsi\n	je 2f\n" SAVE
	      "	dec %rsi\n	lea zone_jump_table(%rip), %rax\n	jmp *%rax\n2:" SUM);
/* Here the nop comes before there is any data: it may be probed, and patched. */
FUNCTION(zone_later, NOP5 SAVE SUM);

static uint64_t (*const functions_called[])(uint64_t, uint64_t) = {
	zone_inside, zone_behind_endbr64, zone_loop_to_entry, zone_jump_table, zone_later,
};

/* Between the processes. */
struct shared {
	uint64_t call;
	unsigned wrong;       /* calls of one round */
	unsigned naive_wrong; /* of those, of the function with the nop inside */
};

static void call_all(unsigned round, void *data)
{
	struct shared *shared = data;

	shared->wrong = shared->naive_wrong = 0;
	for (shared->call = 0; shared->call < CALLS; shared->call++)
		for (unsigned i = 0; i < ARRAY_SIZE(functions_called); i++) {
			uint64_t value = shared->call * 0x123456789abcdef + i + 1;
			bool wrong = functions_called[i](value, 3) != 4 * value;

			shared->wrong += wrong;
			shared->naive_wrong += wrong && functions_called[i] == zone_inside;
		}
}

static void report(const char *name, bool good, unsigned *passed, unsigned *failed)
{
	printf("%s red_zone: %s\n", good ? "ok" : "FAIL", name);
	*(good ? passed : failed) += 1;
}

/* No site is a nop of five bytes, save where no data lies there yet. */
static bool avoids_nops(const struct library *library)
{
	bool good = library->n == ARRAY_SIZE(functions_called);
	unsigned n_nops = 0;

	for (unsigned i = 0; i < library->n; i++) {
		const struct site *site = &library->chosen[i].site;

		if (site->class == SITE_REFUSED)
			printf("  refused: %s\n", site->reason);
		else
			n_nops += !strncmp(site->text, "nop", 3);
	}
	return good && n_nops == 1;
}

/* A caller that asks for the place of the nop, by its distance from the function. */
static int attach_naively(const struct library *library, struct trace *trace, pid_t pid)
{
	static const uint8_t nop5[] = { 0x0f, 0x1f, 0x44, 0, 0 };
	const uint8_t *code = (const uint8_t *)(uintptr_t)zone_inside,
		      *nop = memmem(code, 64, nop5, sizeof(nop5));

	for (unsigned i = 0; i < library->n; i++) {
		uint64_t offset = library->chosen[i].offset + (uint64_t)(nop - code), cookie = 0;

		if (!strcmp(library->chosen[i].name, "zone_inside"))
			return trace_attach(trace, pid, library->fd, &offset, &cookie, 1);
	}
	return -ENOENT;
}

static void check_results(const struct library *library, struct shared *shared, struct trace *trace,
			  unsigned *passed, unsigned *failed)
{
	const struct hit *hits;
	struct child child;
	int r;

	r = child_start(call_all, shared, &child);
	if (r < 0) {
		report("cannot start a process", false, passed, failed);
		return;
	}
	r = child_round(&child);
	report("results_are_right_without_probes", r >= 0 && !shared->wrong, passed, failed);
	r = library_attach(library, trace, child.pid);
	if (r >= 0)
		r = child_round(&child);
	report("results_are_right_at_our_sites",
	       r >= 0 && !shared->wrong && trace_take_hits(trace, &hits) >= CALLS, passed, failed);
	trace_detach(trace);
	child_end(&child);
}

static void check_naive(const struct library *library, struct shared *shared, struct trace *trace,
			unsigned *passed, unsigned *failed)
{
	const struct hit *hits;
	struct child child;
	int attached, r;

	if (child_start(call_all, shared, &child) < 0) {
		report("cannot start a process", false, passed, failed);
		return;
	}
	attached = attach_naively(library, trace, child.pid);
	r = attached < 0 ? attached : child_round(&child);
	if (attached < 0 || trace_take_hits(trace, &hits) < CALLS / 2) {
		report("a_naive_probe_on_the_nop_fires", false, passed, failed);
	} else if (r >= 0 && !shared->naive_wrong) {
		puts("skipped: red_zone: a_naive_probe_on_the_nop_corrupts_results: this kernel keeps the red zone");
	} else {
		printf("      %u of %u calls returned something else\n", shared->naive_wrong,
		       CALLS);
		report("a_naive_probe_on_the_nop_corrupts_results", true, passed, failed);
	}
	trace_detach(trace);
	child_end(&child);
}

void red_zone_check(unsigned *passed, unsigned *failed)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct trace *trace = NULL;
	struct library library;

	if (shared == MAP_FAILED ||
	    library_open("/proc/self/exe", "zone_*", NULL, 3, &library) < 0) {
		report("cannot read this very program", false, passed, failed);
		return;
	}
	report("no_site_is_a_nop_with_live_data_around_it", avoids_nops(&library), passed, failed);
	if (trace_new(&shared->call, &trace) < 0) {
		report("cannot load a program: needs root", false, passed, failed);
	} else {
		check_results(&library, shared, trace, passed, failed);
		check_naive(&library, shared, trace, passed, failed);
	}
	trace_free(trace);
	library_close(&library);
}
