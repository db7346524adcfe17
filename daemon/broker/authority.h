/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may profile whom. The rule is here and nowhere else: the broker enforces it for every process
 * of a capture, and the front queries it beforehand, to answer with what a client may have. Users
 * are those that the kernel reports.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Whether the user may profile processes of this owner. */
bool authority_may_profile(uid_t user, uid_t owner);
/* Whether the user may profile every process, regardless of its owner. */
bool authority_may_profile_all(uid_t user);
/* Whether the user may see and end what another user has started: a capture, or the recorder. */
bool authority_may_control(uid_t user, uid_t beginner);
