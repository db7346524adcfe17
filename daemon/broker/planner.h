/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of the files that targets have mapped. The prover makes them, and the front can neither
 * change them nor choose anything but the file and the packs. A plan, or its failure, is kept for
 * the same file by (device, inode, size, change time) as long as it is used, and a while longer;
 * for that time the file stays open, so that these numbers cannot come to mean another file. The
 * text that makes the next plan of the file cheap (daemon/plan/stored.h) is kept on disk.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/plan/plan.h"

/* Files that are read at the same time, at most one of them for one user. */
#define PLANNER_AT_ONCE 4
#define PLANNER_POLLS (PLANNER_AT_ONCE + 1)

struct planner;

/* A plan that was made, or failed. */
struct planned {
	/* NULL: it failed, or was not asked for. Without texts. */
	const struct plan *plan;
	int proof;  /* all of it (daemon/plan/proof.h), which cannot be changed any more */
	int error;  /* of a failure */
	bool known; /* a stored plan made it cheap, or it is the same as at an earlier request */
	char reason[96];
};

/* prover: the line to it, owned. state: the state directory; -1: nothing is stored. -ENOMEM. */
int planner_new(int prover, int state, struct planner **ret);
/* Where it writes; -1: nowhere. */
int planner_directory(const struct planner *p);
struct planner *planner_free(struct planner *planner);

/*
 * The plan of the packs (bits, as pack_set_get()) in a file, or what else is wanted. user: whose
 * process has mapped it. The caller has a reference, for planned_unref(). -EINPROGRESS: ask again
 * soon; -ENODATA: no plan was made before; -EBUSY: too many files are waiting, -ENOMEM.
 */
int planner_get(struct planner *planner, int fd, uid_t user, uint64_t packs,
		enum plan_wanted wanted, struct planned **ret);
/*
 * The names of the functions at places of a file (lib/elf/functions.h): the answers take the place
 * of the proof, and there is no plan. They are not there until planned_is_done(). The caller has a
 * reference. -EBUSY, -ENOMEM, -EMFILE.
 */
int planner_ask(struct planner *planner, int fd, uid_t user, int questions, struct planned **ret);
bool planned_is_done(const struct planned *planned);
void planned_unref(struct planned *planned);

/* Sets what is to be waited for; returns how many entries, at most PLANNER_POLLS. */
unsigned planner_poll(const struct planner *planner, struct pollfd *ret);
/* Reads what the prover has sent, begins what waits, and drops what was not used for long. -ECHILD:
 * the prover has ended. */
int planner_work(struct planner *planner);
