/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of processes that the front has opened, and their plans. Functions that answer a
 * request take its message, fill in the answer, and return its result. They may be called from any
 * thread.
 */
#pragma once

#include <poll.h>

#include "daemon/broker/captures.h"
#include "daemon/broker/message.h"
#include "daemon/broker/planner.h"

struct files;

/* prover, state: as planner_new(). -ENOMEM. */
int files_new(int prover, int state, struct files **ret);
struct files *files_free(struct files *files);

int files_open(struct files *files, struct broker_message *m);
/* *ret_fd stays the plan's. */
int files_plan(struct files *files, struct broker_message *m, int *ret_fd, unsigned *ret_n_fds);
/* BROKER_FUNCTIONS; questions: -1: none came. Likewise. */
int files_functions(struct files *files, struct broker_message *m, int questions, int *ret_fd,
		    unsigned *ret_n_fds);
int files_close(struct files *files, const struct broker_message *m);
/* BROKER_SITES. */
int files_sites(struct files *files, struct captures *captures, struct broker_message *m);

/* Where plans are stored, -1: nowhere. */
int files_directory(const struct files *files);

/* As planner_poll() and planner_work(). */
unsigned files_poll(const struct files *files, struct pollfd *ret);
int files_work(struct files *files);
