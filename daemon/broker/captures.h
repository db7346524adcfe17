/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The captures of a front: for each the loaded programs, the processes that its client may watch,
 * and what is attached to them. What a request names is checked here. The functions that answer a
 * request take it and fill in the answer, and return its result.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/broker/kernel/attach.h"
#include "daemon/broker/message.h"

struct captures;

/* log_directory: as program_cache_new(). */
int captures_new(enum attach_mode mode, int log_directory, struct captures **ret);
/* Ends all of them, and waits until everything is taken away. */
struct captures *captures_free(struct captures *s);

struct program_cache *captures_programs(struct captures *s);

/* BROKER_CAPTURE, for a client of this user. */
int captures_begin(struct captures *s, uid_t uid, struct broker_message *m, int *ret_fds,
		   unsigned *ret_n_fds);
int captures_target(struct captures *s, struct broker_message *m);
/* BROKER_SITES; file: the broker's copy, of a mapping of the process pid. */
int captures_sites(struct captures *s, struct broker_message *m, int file, pid_t pid);
int captures_attach(struct captures *s, struct broker_message *m);
int captures_forget(struct captures *s, const struct broker_message *m);
int captures_name_threads(struct captures *s, const struct broker_message *m);
int captures_shed(struct captures *s, const struct broker_message *m);
/* *ret_fd: the file that was opened. */
int captures_module(struct captures *s, struct broker_message *m, int *ret_fd);
int captures_end(struct captures *s, const struct broker_message *m);

/* Whether sites lie in the file with this descriptor. */
bool captures_use(const struct captures *s, int file);
/* A process became another program: takes away what is attached to it. */
void captures_executed(struct captures *s, pid_t pid);
/* Takes away what is attached to processes that their captures' clients may not watch any more. */
void captures_check(struct captures *s);
