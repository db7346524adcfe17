/* SPDX-License-Identifier: Apache-2.0 */
/* The names of operations as TensorBoard's pages read them. */
#pragma once

#include <stddef.h>

#include "daemon/timeline/timeline.h"

/*
 * The pages take "name:Type" for an operation only if name is [A-Za-z0-9.][A-Za-z0-9_.\/>-]* and
 * Type [A-Z_][A-Za-z0-9_]* (tsl's tf_op_utils.cc). Where an operation's name is none, what it is
 * shown as: "_" for each other character, and what it may not begin with behind "." or "_". A name
 * that begins with "_" stays. In buffer, or the name itself; so is one longer than the buffer.
 */
const char *op_name_shown(const struct span_name *name, char *buffer, size_t size);

/*
 * What each of the timeline's names is shown as, by index; NULL: as it is. Names that differ stay
 * different: one that would be shown as another one gets "_" and a number of its own behind its
 * name. -ENOMEM.
 */
int op_names_make(const struct timeline *t, char ***ret);
void op_names_free(const struct timeline *t, char **shown);
