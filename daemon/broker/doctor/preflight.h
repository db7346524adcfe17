/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What prevents a capture on this host, or of a process: findings, judged from facts alone, each
 * with a stable code, one sentence and one remedy. With a finding of severity error nothing can be
 * captured.
 */
#pragma once

#include <stddef.h>

#include "daemon/broker/doctor/facts.h"
#include "daemon/broker/kernel/examine.h"
#include "daemon/broker/kernel/programs.h"
#include "daemon/broker/limits.h"
#include "daemon/broker/message.h"

#define PREFLIGHT_MAX 32

struct findings {
	unsigned n;
	struct broker_finding list[PREFLIGHT_MAX];
};

/* Adds findings about the host. */
void preflight_judge_host(const struct host_facts *facts, struct findings *findings);
/* Adds which programs the kernel refuses, of PROGRAM_COUNT verdicts. */
void preflight_judge_programs(const struct program_verdict *verdicts, struct findings *findings);
/* Adds that the programs cannot be loaded, and the reason. */
void preflight_judge_load(const char *reason, struct findings *findings);
/* Adds a note for every restriction of this host that captures work with all the same. */
void preflight_list_limits(const struct host_facts *facts, struct findings *findings);
/* Adds findings about a process; none if it can be captured. */
void preflight_judge_process(pid_t pid, const struct process_facts *facts,
			     struct findings *findings);

/* The first error; NULL: none. */
const struct broker_finding *preflight_error(const struct findings *findings);
/* Formats "CODE: sentence; remedy" as one line. */
void preflight_describe(const struct broker_finding *finding, char *ret_text, size_t size);
