/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sites/property.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/base/macro.h"
#include "tests/sites/call.h"
#include "tests/sites/child.h"
#include "tests/sites/library.h"

#define CALLS 6 /* of each function */
#define FUNCTIONS_MAX 2048
#define COMPLAINTS_MAX 12
#define REASONS_MAX 16
#define FIRSTS_MAX 64
/* Of the functions that need not be refused. */
#define REFUSED_PERCENT_MAX 3

struct outcome {
	uint64_t result[2], kept, stack, memory;
};

/* Between the processes. */
struct shared {
	uint64_t call; /* the number of the call in progress */
	uint64_t memory[SITE_ARGUMENTS][ARGUMENT_WORDS];
	struct outcome outcomes[2][FUNCTIONS_MAX * CALLS]; /* without probes, with them */
};

struct check {
	const char *name;
	struct library library;
	struct shared *shared;
	unsigned complaints;
};

static struct {
	unsigned functions, calls, emulated, stepped, refused, must_refuse, moved, may_repeat,
		repeats;
	struct {
		const char *reason;
		unsigned count;
	} reasons[REASONS_MAX];
	struct {
		char name[16];
		unsigned emulated, stepped, refused;
	} firsts[FIRSTS_MAX];
} total;

#define COMPLAIN(check, ...)                                                                       \
	do {                                                                                       \
		if ((check)->complaints++ < COMPLAINTS_MAX) {                                      \
			printf("  %s: ", (check)->name);                                           \
			printf(__VA_ARGS__);                                                       \
			putchar('\n');                                                             \
		}                                                                                  \
	} while (0)

/* The same for the same number. */
static uint64_t scramble(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static uint64_t argument_value(const struct shared *shared, const struct function *f, uint64_t call,
			       unsigned i)
{
	uint64_t random = scramble(call * 16 + i + 1);
	char kind = i < strlen(f->arguments) ? f->arguments[i] : 'l';

	if (kind == 'p')
		return (uint64_t)(uintptr_t)shared->memory[i];
	if (kind == 's')
		return random & 3;
	/* Small numbers, too: they take other branches. */
	return call % CALLS == 1 ? random & 15 : random;
}

static uint64_t hash_memory(const struct shared *shared)
{
	const uint64_t *words = shared->memory[0];
	uint64_t hash = 0;

	for (size_t i = 0; i < SITE_ARGUMENTS * ARGUMENT_WORDS; i++)
		hash = scramble(hash ^ words[i]) + i;
	return hash;
}

static void call_function(struct shared *shared, const struct function *f, uint64_t number,
			  struct outcome *ret)
{
	struct call call = { .function = f->address };

	for (unsigned i = 0; i < SITE_ARGUMENTS; i++) {
		call.arguments[i] = argument_value(shared, f, number, i);
		for (unsigned j = 0; j < ARGUMENT_WORDS; j++)
			shared->memory[i][j] = scramble(number << 16 | i << 8 | j);
	}
	__atomic_store_n(&shared->call, number, __ATOMIC_RELAXED);
	call_make(&call);
	*ret = (struct outcome){
		.result = { call.result[0], f->flags & FUNCTION_RETURNS_PAIR ? call.result[1] : 0 },
		.kept = call.kept,
		.stack = call.stack,
		.memory = hash_memory(shared)
	};
}

static void call_all(unsigned round, void *data)
{
	struct check *check = data;

	for (unsigned i = 0; i < check->library.n; i++)
		for (unsigned k = 0; k < CALLS; k++) {
			uint64_t number = i * CALLS + k;

			call_function(check->shared, check->library.chosen[i].function, number,
				      &check->shared->outcomes[round % 2][number]);
		}
}

static void count_reason(const char *reason)
{
	for (unsigned i = 0; i < REASONS_MAX; i++) {
		if (!total.reasons[i].reason)
			total.reasons[i].reason = reason;
		if (strcmp(total.reasons[i].reason, reason))
			continue;
		total.reasons[i].count++;
		return;
	}
}

static void count_first(const struct chosen *c)
{
	for (unsigned i = 0; i < FIRSTS_MAX; i++) {
		if (!total.firsts[i].name[0])
			memcpy(total.firsts[i].name, c->first, sizeof(c->first));
		if (strcmp(total.firsts[i].name, c->first))
			continue;
		total.firsts[i].emulated += c->site.class == SITE_EMULATED;
		total.firsts[i].stepped += c->site.class == SITE_SINGLE_STEPPED;
		total.firsts[i].refused += c->site.class == SITE_REFUSED;
		return;
	}
}

static void count_sites(struct check *check)
{
	static const uint8_t home[SITE_ARGUMENTS] = { REGISTER_RDI, REGISTER_RSI, REGISTER_RDX,
						      REGISTER_RCX, REGISTER_R8,  REGISTER_R9 };

	for (unsigned i = 0; i < check->library.n; i++) {
		const struct chosen *c = &check->library.chosen[i];

		total.functions++;
		count_first(c);
		if (c->site.class == SITE_REFUSED) {
			count_reason(c->site.reason);
			total.refused += !(c->function->flags &
					   (FUNCTION_MUST_BE_REFUSED | FUNCTION_MAY_BE_REFUSED));
			total.must_refuse += !!(c->function->flags & (FUNCTION_MUST_BE_REFUSED |
								      FUNCTION_MAY_BE_REFUSED));
			continue;
		}
		if (c->function->flags & FUNCTION_MUST_BE_REFUSED)
			COMPLAIN(check, "%s has a site: %s", c->function->name, c->site.text);
		total.emulated += c->site.class == SITE_EMULATED;
		total.stepped += c->site.class == SITE_SINGLE_STEPPED;
		total.may_repeat += c->site.may_repeat;
		total.moved += memcmp(c->site.argument_register, home, sizeof(home)) != 0;
	}
}

static void check_outcomes(struct check *check)
{
	for (unsigned number = 0; number < check->library.n * CALLS; number++) {
		const struct outcome *without = &check->shared->outcomes[0][number],
				     *with = &check->shared->outcomes[1][number];

		total.calls++;
		if (memcmp(without, with, sizeof(*with)))
			COMPLAIN(
				check,
				"%s, call %u: returns %llx %llx with probes, %llx %llx without, or else another state",
				check->library.chosen[number / CALLS].function->name,
				number % CALLS, (unsigned long long)with->result[0],
				(unsigned long long)with->result[1],
				(unsigned long long)without->result[0],
				(unsigned long long)without->result[1]);
	}
}

/* The first hit of a call: it sees what its caller has passed. */
static void check_first_hit(struct check *check, const struct hit *hit, uint64_t number)
{
	const struct chosen *c = &check->library.chosen[number / CALLS];
	const struct outcome *outcome = &check->shared->outcomes[1][number];
	uint64_t stack = hit->registers[REGISTER_RSP] + c->site.stack_offset;

	if (stack != outcome->stack)
		COMPLAIN(check, "%s: the stack is %+lld bytes from where it was at the entry",
			 c->function->name, (long long)(stack - outcome->stack));
	if (hit->return_address != (uint64_t)(uintptr_t)call_returned)
		COMPLAIN(check, "%s: no return address lies at the stack pointer",
			 c->function->name);
	for (unsigned i = 0; i < SITE_ARGUMENTS; i++) {
		uint64_t real = argument_value(check->shared, c->function, number, i);
		uint64_t seen = hit->registers[c->site.argument_register[i]];

		if (c->function->mask >> i & 1 && seen != real)
			COMPLAIN(check, "%s at +%u (%s): argument %u is %llx, not %llx",
				 c->function->name, c->site.offset, c->site.text, i,
				 (unsigned long long)seen, (unsigned long long)real);
	}
}

static void check_count(struct check *check, unsigned number, unsigned hits)
{
	const struct chosen *c = &check->library.chosen[number / CALLS];
	const struct function *f = c->function;
	uint64_t depth = argument_value(check->shared, f, number, 0);
	unsigned least = 1, most = 1;

	if (c->site.class == SITE_REFUSED)
		least = most = 0;
	else if (f->flags & FUNCTION_RECURSES)
		most = 1 + (unsigned)depth;
	else if (f->flags & FUNCTION_RECURSES_EXACTLY)
		least = most = 1 + (unsigned)depth;
	total.repeats += c->site.may_repeat && hits > most;
	if (c->site.may_repeat)
		most = UINT32_MAX;
	if (hits < least || hits > most)
		COMPLAIN(check, "%s at +%u (%s), call %u: %u hits", f->name, c->site.offset,
			 c->site.text, number % CALLS, hits);
}

static void check_hits(struct check *check, const struct hit *hits, uint64_t n)
{
	_cleanup_free_ unsigned *counts = calloc(FUNCTIONS_MAX * CALLS, sizeof(counts[0]));

	if (n > HITS_MAX || !counts) {
		COMPLAIN(check, "%llu hits are more than there is room for", (unsigned long long)n);
		return;
	}
	for (uint64_t i = 0; i < n; i++) {
		if (hits[i].call >= check->library.n * CALLS ||
		    hits[i].function != hits[i].call / CALLS)
			COMPLAIN(check, "a hit of function %llu in call %llu",
				 (unsigned long long)hits[i].function,
				 (unsigned long long)hits[i].call);
		else if (counts[hits[i].call]++ == 0)
			check_first_hit(check, &hits[i], hits[i].call);
	}
	for (unsigned number = 0; number < check->library.n * CALLS; number++)
		check_count(check, number, counts[number]);
}

static int check_in_child(struct check *check)
{
	struct trace *trace = NULL;
	const struct hit *hits;
	struct child child;
	int r;

	r = child_start(call_all, check, &child);
	if (r < 0)
		return r;
	r = child_round(&child);
	if (r >= 0)
		r = trace_new(&check->shared->call, &trace);
	if (r >= 0)
		r = library_attach(&check->library, trace, child.pid);
	if (r < 0)
		COMPLAIN(check, "cannot attach (needs root): %s", strerror(-r));
	if (r >= 0) {
		r = child_round(&child);
		if (r < 0)
			COMPLAIN(check, "%s did not survive its probe",
				 check->library
					 .chosen[check->shared->call / CALLS % check->library.n]
					 .function->name);
	}
	if (r >= 0) {
		uint64_t n = trace_take_hits(trace, &hits);

		check_outcomes(check);
		check_hits(check, hits, n);
	}
	trace_free(trace);
	child_end(&child);
	return MIN(r, 0);
}

bool property_check(const char *path)
{
	const char *base = strrchr(path, '/');
	struct check check = { .name = base ? base + 1 : path, .library = { .fd = -1 } };
	const struct function *table;
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL), *shared;
	int r;

	table = handle ? dlsym(handle, "functions") : NULL;
	if (!table) {
		printf("FAIL %s: %s\n", check.name, dlerror());
		return false;
	}
	shared = mmap(NULL, sizeof(*check.shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	r = shared == MAP_FAILED ? -errno : library_open(path, "site_*", table, 0, &check.library);
	check.shared = shared;
	for (unsigned i = 0; i < check.library.n; i++)
		if (!check.library.chosen[i].function)
			r = -ENOENT;
	if (r >= 0 && check.library.n > 0 && check.library.n <= FUNCTIONS_MAX) {
		count_sites(&check);
		r = check_in_child(&check);
	} else {
		COMPLAIN(&check, "no table of its functions, or not the right one");
	}
	printf("%s %s: %u functions\n", check.complaints || r < 0 ? "FAIL" : "ok", check.name,
	       check.library.n);
	if (check.complaints > COMPLAINTS_MAX)
		printf("  and %u more\n", check.complaints - COMPLAINTS_MAX);
	library_close(&check.library);
	if (shared != MAP_FAILED)
		munmap(shared, sizeof(*check.shared));
	/* The library stays: its addresses may not be another's. */
	return !check.complaints && r >= 0;
}

bool property_summarise(void)
{
	unsigned others = total.functions - total.must_refuse;
	bool few = total.refused * 100 <= others * REFUSED_PERCENT_MAX;

	printf("      %u functions, %u calls: %u emulated, %u single-stepped, %u refused and %u that may be\n",
	       total.functions, total.calls, total.emulated, total.stepped, total.refused,
	       total.must_refuse);
	printf("      %u sites where an argument has moved, %u that may fire again in a loop, as %u calls show\n",
	       total.moved, total.may_repeat, total.repeats);
	for (unsigned i = 0; i < REASONS_MAX && total.reasons[i].reason; i++)
		printf("      refused %u: %s\n", total.reasons[i].count, total.reasons[i].reason);
	for (unsigned i = 0; i < FIRSTS_MAX && total.firsts[i].name[0]; i++)
		printf("      begin with %-10s %5u emulated %5u single-stepped %5u refused\n",
		       total.firsts[i].name, total.firsts[i].emulated, total.firsts[i].stepped,
		       total.firsts[i].refused);
	printf("%s few_functions_are_refused\n", few ? "ok" : "FAIL");
	return few;
}
