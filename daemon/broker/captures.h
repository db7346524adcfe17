/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The captures of a front: for each, the loaded programs, the processes that its client may
 * profile, and what is attached to them. The ids in a request are checked here. Functions that
 * answer a request take its message, fill in the answer, and return its result.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/broker/kernel/attach.h"
#include "daemon/broker/message.h"
#include "daemon/broker/site_check.h"

struct captures;

/* log_directory: as program_cache_new(). */
int captures_new(enum attach_mode mode, int log_directory, struct captures **ret);
/* Ends all of them, and waits until everything is detached. */
struct captures *captures_free(struct captures *s);

struct program_cache *captures_programs(struct captures *s);

/* BROKER_CAPTURE, for a client of this user. */
int captures_begin(struct captures *s, uid_t uid, struct broker_message *m, int *ret_fds,
		   unsigned *ret_n_fds);
int captures_target(struct captures *s, struct broker_message *m);
/* BROKER_SITES; its ranges and has_seccomp are found here. */
int captures_sites(struct captures *s, struct broker_message *m, struct mapped_file *file);
int captures_attach(struct captures *s, struct broker_message *m);
int captures_forget(struct captures *s, const struct broker_message *m);
int captures_name_threads(struct captures *s, const struct broker_message *m);
int captures_shed(struct captures *s, const struct broker_message *m);
/* *ret_fd: the file that was opened. */
int captures_module(struct captures *s, struct broker_message *m, int *ret_fd);
int captures_end(struct captures *s, const struct broker_message *m);

/* A process became another program: detaches everything from it. */
void captures_executed(struct captures *s, pid_t pid);
/* Detaches everything from processes that the clients of their captures may no longer profile. */
void captures_check(struct captures *s);
