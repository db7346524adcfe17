/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of triggers' snapshots. The broker makes them, under names of its own, decides who may
 * read them, how often there may be one, and which are removed; the front only writes into the one
 * that is being made. Nothing is in the directory before it is complete.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/broker/message.h"
#include "daemon/plan/trigger_rule.h"

struct snapshots;

struct snapshots_options {
	int directory; /* borrowed; -1: there are none */
	struct trigger_names triggers;
	uint64_t interval_ns; /* between two of one trigger */
	unsigned keep;        /* files */
	uint64_t bytes;       /* of all of them */
};

/* Whether each name may be part of a file's, and all are different. */
bool trigger_names_are_valid(const struct trigger_names *names);

/* -ENOMEM. */
int snapshots_new(const struct snapshots_options *options, struct snapshots **ret);
struct snapshots *snapshots_free(struct snapshots *s);
/* These are the triggers from now on. The interval of those that had the name before goes on, and
 * what was begun may be ended. */
void snapshots_set_triggers(struct snapshots *s, const struct trigger_names *triggers);

/*
 * Begins the snapshot of the trigger m->name, of the process m->pid; one that was begun before and
 * not ended is forgotten. Returns 0 and the descriptor of an empty file, which is borrowed;
 * -EALREADY: too soon after the trigger's last one; -ENOENT: there is no such trigger; or -errno;
 * with the reason in the message's text. -EINVAL.
 */
int snapshots_begin(struct snapshots *s, struct broker_message *m, int *ret_fd);
/* Ends what was begun for the trigger m->name: with m->count it gets its name, which is returned
 * in the message; reader: who may read it besides root, -1: nobody. Otherwise nothing of it stays.
 * -errno with the reason in the message's text; then nothing stays either. */
int snapshots_end(struct snapshots *s, struct broker_message *m, uid_t reader);
