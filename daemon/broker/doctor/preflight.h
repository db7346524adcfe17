/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What on this host, or about a process, stands in the way of a capture: findings, judged from
 * facts alone, each with a stable code, one sentence and one remedy. The worst of them are errors,
 * with which nothing can be captured.
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

/* Adds what there is to say about the host. */
void preflight_judge_host(const struct host_facts *facts, struct findings *findings);
/* Adds which programs the kernel refuses, of PROGRAM_COUNT verdicts. */
void preflight_judge_programs(const struct program_verdict *verdicts, struct findings *findings);
/* Adds that they cannot be loaded, for that reason. */
void preflight_judge_load(const char *reason, struct findings *findings);
/* Adds a line for everything that restricts others on this host and that captures work with all the
 * same. */
void preflight_list_limits(const struct host_facts *facts, struct findings *findings);
/* Adds what there is to say about a process; nothing when it can be captured. */
void preflight_judge_process(pid_t pid, const struct process_facts *facts,
			     struct findings *findings);

/* The first error, NULL: none. */
const struct broker_finding *preflight_error(const struct findings *findings);
/* "CODE: sentence; remedy", in one line. */
void preflight_describe(const struct broker_finding *finding, char *ret_text, size_t size);
