/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's line for requests that take time: loading programs, attaching, measuring. They are
 * served by a thread of its own, which owns the captures, so that no other request waits for them.
 */
#pragma once

#include "daemon/broker/audit.h"
#include "daemon/broker/captures.h"
#include "daemon/broker/doctor/doctor.h"
#include "daemon/broker/snapshots.h"

struct capture_line;

struct capture_line_options {
	int socket; /* owned */
	enum attach_mode mode;
	int state; /* as captures_new(), like the next */
	uint64_t user_ring_bytes, keep_ns;
	struct audit *audit; /* borrowed */
	struct snapshots_options snapshots;
	bool sideband;
	struct bpf_facts bpf;
	/* Called in the line's thread: as clients_peer(). */
	int (*client)(uint32_t id, struct authority_peer *ret, void *data);
	/* Likewise: as clients_may(). */
	int (*may)(struct broker_message *m, void *data);
	/* Likewise: answers BROKER_SITES. */
	int (*sites)(struct captures *captures, struct broker_message *m, void *data);
	void *data;
};

/* Starts the thread. -ENOMEM, and what pthread_create() returns. */
int capture_line_new(const struct capture_line_options *options, struct capture_line **ret);
/* Ends all captures, and waits until everything is detached. */
struct capture_line *capture_line_free(struct capture_line *line);

/* What follows happens soon, in the line's thread. A process became another program: everything is
 * detached from it. */
void capture_line_executed(struct capture_line *line, pid_t pid);
/* The first thread of a process has ended. */
void capture_line_exited(struct capture_line *line, pid_t pid);
/* Ends what captures attached whose clients have gone, or may not have them any more. */
void capture_line_client_gone(struct capture_line *line);
/* As snapshots_set_triggers(), before any request that is sent afterwards. */
void capture_line_set_triggers(struct capture_line *line, const struct trigger_names *triggers);
/* Detaches everything from processes that the clients of their captures may no longer profile. */
void capture_line_check(struct capture_line *line);
