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

#include "daemon/broker/authority.h"
#include "daemon/broker/kernel/attach.h"
#include "daemon/broker/kernel/counts.h"
#include "daemon/broker/message.h"
#include "daemon/broker/site_check.h"

struct captures;

struct captures_options {
	enum attach_mode mode;
	int state;                /* the state directory, borrowed; -1: none */
	uint64_t user_ring_bytes; /* of ring buffers, that one user may hold */
	/* How long the programs of a next capture stay loaded after a client's. */
	uint64_t keep_ns;
	/* Decides as clients_may(): the message has the ids of client and process. */
	int (*may)(struct broker_message *m, void *data);
	/* A process is no longer captured, as the client of the capture may not profile it any
	 * more. */
	void (*lost)(uint32_t id, pid_t pid, const char *reason, void *data);
	void *data;
};

int captures_new(const struct captures_options *options, struct captures **ret);
/* Ends all of them, and waits until everything is detached. */
struct captures *captures_free(struct captures *s);

struct program_cache *captures_programs(struct captures *s);

/* BROKER_CAPTURE, for the client with the message's id. */
int captures_begin(struct captures *s, const struct authority_peer *peer, struct broker_message *m,
		   int *ret_fds, unsigned *ret_n_fds);
/* The client of a capture, and whether the capture has what only root may have. -EINVAL: there is
 * no such capture, or its client has gone. */
int captures_client(const struct captures *s, uint32_t id, uint32_t *ret_client, bool *ret_is_root);
/* The processes of such a capture; 0 in place of one that has ended, or is another program. Returns
 * their number. */
unsigned captures_pids(const struct captures *s, uint32_t id, pid_t ret[static RECORD_MAX_TARGETS]);
/* Its client has gone, or is not root any more: detaches everything. The front still has to end it.
 */
void captures_revoke(struct captures *s, uint32_t id);
int captures_target(struct captures *s, struct broker_message *m);
/* BROKER_SITES; its ranges and has_seccomp are found here. */
int captures_sites(struct captures *s, struct broker_message *m, struct mapped_file *file);
int captures_attach(struct captures *s, struct broker_message *m);
int captures_forget(struct captures *s, const struct broker_message *m);
int captures_name_threads(struct captures *s, struct broker_message *m);
int captures_shed(struct captures *s, const struct broker_message *m);
int captures_resume(struct captures *s, struct broker_message *m);
/* *ret_fd: the file that was opened. */
int captures_module(struct captures *s, struct broker_message *m, int *ret_fd);
int captures_end(struct captures *s, const struct broker_message *m);

/* What the capture has put into its ring buffers. -EINVAL: there is no such capture. */
int captures_count(const struct captures *s, uint32_t id, struct capture_counts *ret);
/* A process became another program: detaches everything from it. */
void captures_executed(struct captures *s, pid_t pid);
/* The first thread of a process has ended. */
void captures_exited(struct captures *s, pid_t pid);
/* Detaches everything from those of these processes that have ended; true: some have not yet. */
bool captures_forget_ended(struct captures *s);
/* Unloads programs that have waited long enough for a next capture; true: some wait, or soon will.
 */
bool captures_drop_programs(struct captures *s);
/* Whether there are none. */
bool captures_are_none(const struct captures *s);
/* Detaches everything from processes that the clients of their captures may no longer profile. */
void captures_check(struct captures *s);
