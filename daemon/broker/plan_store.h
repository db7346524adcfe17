/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of stored plans (daemon/plan/stored.h), one file each, at most PLAN_STORE_FILES.
 * The prover writes their content; their names are chosen here. */
#pragma once

#include <sys/stat.h>

#include "daemon/plan/packs.h"

#define PLAN_STORE_FILES 128

struct plan_store;

/* state: the state directory, borrowed; -1, or if it cannot be used: nothing is stored. -ENOMEM. */
int plan_store_new(int state, struct plan_store **ret);
/* Its descriptor; -1: there is none. */
int plan_store_directory(const struct plan_store *s);
struct plan_store *plan_store_free(struct plan_store *store);

/* The stored plan of a file for these packs, to be read; -1: none. */
int plan_store_open(struct plan_store *store, const struct stat *st, const struct pack_set *set);
/* A new file for it, with no name yet; -1: none. The caller closes it, or keeps it. */
int plan_store_create(struct plan_store *store);
/* Gives a created file its name, in place of an earlier one, if it has content. Closes it. error:
 * why the content could not be written, 0: it could. */
void plan_store_keep(struct plan_store *store, int fd, int error, const struct stat *st,
		     const struct pack_set *set);
