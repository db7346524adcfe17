/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When processes executed their programs, and when they mapped a runtime's libraries, from
 * side-band events. A table of fixed size: a process that maps none makes room for later ones.
 * Pure.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "daemon/broker/message.h"
#include "daemon/broker/watch/sideband.h"

struct births;

/* -ENOMEM. */
int births_new(struct births **ret);
struct births *births_free(struct births *births);
void births_event(struct births *births, const struct sideband_event *event);
/* Zeros if nothing is known. */
struct birth births_get(const struct births *births, pid_t pid);
