/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/kernel/programs.h"

#include <errno.h>
#include <string.h>

#include "lib/base/macro.h"

#define PROGRAM_ROW(id, program_name, program_kind, rank, ...)                                     \
	[PROGRAM_##id] = {                                                                         \
		.name = program_name, .kind = program_kind, .load_rank = rank, __VA_ARGS__         \
	},
const struct program_facts program_facts[PROGRAM_COUNT] = { PROGRAMS(PROGRAM_ROW) };
#undef PROGRAM_ROW

/* Maps that only the programs of one kind use. */
static const struct {
	const char *name;
	enum probe_kind kind;
} maps_of_kinds[] = {
	{ "calls", KIND_SOCKETS },          { "io_uring_reported", KIND_SOCKETS },
	{ "listeners", KIND_SOCKETS },      { "connections", KIND_SOCKETS },
	{ "described", KIND_SOCKETS },      { "fresh", KIND_SOCKETS },
	{ "windows", KIND_SOCKETS },        { "holds", KIND_SOCKETS },
	{ "n_holds", KIND_SOCKETS },        { "samples", KIND_STACKS },
	{ "plain_calls", KIND_SOCKETS },    { "plaintexts", KIND_SOCKETS },
	{ "no_plaintext", KIND_DECRYPTED }, { "kernel_names", KIND_STACKS },
	{ "kernel_count", KIND_STACKS },    { "interpreters", KIND_STACKS },
	{ "scripts", KIND_STACKS },         { "script_count", KIND_STACKS },
	{ "script_walks", KIND_STACKS },    { "copies", KIND_STACKS },
};

void programs_done(struct programs *p)
{
	/* A negative descriptor is an error, or none. */
	for (unsigned i = 0; i < PROGRAM_COUNT; i++)
		safe_close(p->programs[i]);
	for (unsigned i = 0; i < RECORD_CPU_RINGS; i++)
		safe_close(p->rings[i]);
	for (unsigned i = 0; i < ARRAY_SIZE(p->others); i++)
		safe_close(p->others[i]);
	safe_close(p->spare_ring);
	safe_close(p->control);
	safe_close(p->targets);
	safe_close(p->counters);
	safe_close(p->paths);
	safe_close(p->interpreters);
}

void programs_init(struct programs *p)
{
	memset(p, 0xff, sizeof(*p));
	p->n_rings = 0;
}

int programs_take_map(struct programs *p, const char *name, int fd)
{
	if (!strcmp(name, "control"))
		p->control = fd;
	else if (!strcmp(name, "targets"))
		p->targets = fd;
	else if (!strcmp(name, "counters"))
		p->counters = fd;
	else if (!strcmp(name, "paths"))
		p->paths = fd;
	else if (!strcmp(name, "interpreters"))
		p->interpreters = fd;
	else if (!strcmp(name, "spare_ring"))
		p->spare_ring = fd;
	else if (!strncmp(name, "ring_", 5) && p->n_rings < RECORD_CPU_RINGS)
		p->rings[p->n_rings++] = fd;
	else
		for (unsigned i = 0;; i++) {
			if (i == ARRAY_SIZE(p->others)) {
				close(fd);
				return -E2BIG;
			}
			if (p->others[i] < 0) {
				p->others[i] = fd;
				break;
			}
		}
	return 0;
}

bool program_map_is_of_kinds(const char *name, unsigned kinds)
{
	for (unsigned i = 0; i < ARRAY_SIZE(maps_of_kinds); i++)
		if (!strcmp(name, maps_of_kinds[i].name))
			return kinds & KIND_BIT(maps_of_kinds[i].kind);
	return true;
}

enum bpf_attach_type program_attach_type(const struct program_facts *program)
{
	switch (program->place) {
	case PLACE_ENTRY:
		return BPF_TRACE_FENTRY;
	case PLACE_RETURN:
		return BPF_TRACE_FEXIT;
	default:
		return BPF_TRACE_RAW_TP;
	}
}

bool program_is_of_kinds(enum program program, unsigned kinds)
{
	return program_facts[program].kind == KIND_COUNT ||
	       kinds & KIND_BIT(program_facts[program].kind);
}

void programs_load_order(enum program ret[PROGRAM_COUNT])
{
	for (enum program i = 0; i < PROGRAM_COUNT; i++) {
		unsigned at = i;

		for (; at > 0 && program_facts[ret[at - 1]].load_rank > program_facts[i].load_rank;
		     at--)
			ret[at] = ret[at - 1];
		ret[at] = i;
	}
}
