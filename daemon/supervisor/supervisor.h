/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that was started: it holds the listeners and starts the other roles, again when one
 * has ended. It reads nothing that another process sends but the byte for systemd (notify.h). After
 * a broker's end the front stays, with its connections; after a front's end its broker ends too,
 * and new connections wait at the listeners until both are back. When the supervisor ends, all do.
 */
#pragma once

#include "daemon/supervisor/roles.h"

/* Runs until SIGTERM or SIGINT, which let captures finish, or until a role cannot be started. Owns
 * the configuration and the certificate of the options. Returns 0 or -errno. */
int supervisor_run(struct roles_options *options);
