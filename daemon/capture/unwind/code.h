/* SPDX-License-Identifier: Apache-2.0 */
/* The code that targets have mapped, and its unwind rows, which the broker is asked for when code
 * is seen for the first time. Nothing waits: an answer is there at a later call. */
#pragma once

#include "daemon/capture/unwind/walk.h"
#include "daemon/proxy/proxy.h"

struct code;

/* The proxy is borrowed. -ENOMEM. */
int code_new(struct proxy *proxy, struct code **ret);
struct code *code_free(struct code *code);

/* Target: its index in a capture. */
void code_set_target(struct code *code, unsigned target, pid_t pid);
/* What is known of the code at an address of the target; an unknown place is asked for. */
enum walk_code code_find(struct code *code, unsigned target, uint64_t address,
			 struct unwind_row *ret);
/* Sends questions and takes answers. False: no more is known than before. */
bool code_work(struct code *code);
