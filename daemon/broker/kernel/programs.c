/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/kernel/programs.h"

#include <errno.h>
#include <string.h>

#include "lib/base/macro.h"

const struct program_facts program_facts[PROGRAM_COUNT] = {
	[PROGRAM_PROBE] = { "probe", KIND_COUNT },
	[PROGRAM_EXIT] = { "on_exit", KIND_COUNT, .is_tracepoint = true },
	[PROGRAM_EXEC] = { "on_exec", KIND_COUNT, .is_tracepoint = true },
	[PROGRAM_FORK] = { "on_fork", KIND_COUNT, .is_tracepoint = true },
	[PROGRAM_NAME_THREADS] = { "name_threads", KIND_COUNT },
	[PROGRAM_SWITCH] = { "on_switch", KIND_SWITCHES, .is_tracepoint = true },
	[PROGRAM_WAKING] = { "on_waking", KIND_SWITCHES, .is_tracepoint = true },
	[PROGRAM_WAKEUP_NEW] = { "on_wakeup_new", KIND_SWITCHES, .is_tracepoint = true },
	[PROGRAM_SYS_ENTER] = { "on_sys_enter", KIND_SOCKETS, .is_tracepoint = true },
	[PROGRAM_SYS_EXIT] = { "on_sys_exit", KIND_SOCKETS, .is_tracepoint = true },
	[PROGRAM_FIND_LISTENERS] = { "find_listeners", KIND_SOCKETS },
	[PROGRAM_DATA_READY] = { "on_data_ready", KIND_SOCKETS, .is_tracepoint = true,
				 .is_extra = true, .needs = "sk_data_ready",
				 .unless = PROGRAM_COUNT },
	[PROGRAM_SEGMENT] = { "on_segment", KIND_SOCKETS, .is_tracepoint = true, .is_extra = true,
			      .needs = "tcp_probe", .unless = PROGRAM_DATA_READY },
};

/* Only the programs that follow sockets use these. */
static const char *const socket_maps[] = { "calls", "listeners", "flows", "windows" };

void programs_done(struct programs *p)
{
	/* A negative one is that error, or none. */
	for (unsigned i = 0; i < PROGRAM_COUNT; i++)
		safe_close(p->programs[i]);
	for (unsigned i = 0; i < RECORD_MAX_RINGS; i++)
		safe_close(p->rings[i]);
	for (unsigned i = 0; i < ARRAY_SIZE(p->others); i++)
		safe_close(p->others[i]);
	safe_close(p->control);
	safe_close(p->targets);
	safe_close(p->counters);
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
	else if (!strncmp(name, "ring_", 5) && p->n_rings < RECORD_MAX_RINGS)
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

bool program_map_is_for_sockets(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(socket_maps); i++)
		if (!strcmp(name, socket_maps[i]))
			return true;
	return false;
}

bool program_is_of_kinds(enum program program, unsigned kinds)
{
	return program_facts[program].kind == KIND_COUNT ||
	       kinds & KIND_BIT(program_facts[program].kind);
}
