/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon for a single command, used if none is running: it listens on a Unix socket in a new
 * directory that only its user can enter, and ends with the command, even if the command is killed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct private_daemon;

/*
 * Starts the tfprofd beside this program, else the one in ../sbin, else the one in PATH. -ENOENT if
 * there is none; -ENOMEM; or an error of mkdtemp, pipe or fork.
 */
int private_daemon_start(struct private_daemon **ret);
/* The address of its socket, which exists once the daemon is ready. */
const char *private_daemon_address(const struct private_daemon *daemon);
/* Whether it has ended; *ret_code is then its exit code, or 128 + N if signal N ended it. */
bool private_daemon_ended(struct private_daemon *daemon, int *ret_code);
/* Waits a few seconds for its end; returns whether it has ended. */
bool private_daemon_await_end(struct private_daemon *daemon, int *ret_code);
/* Calls line() for each warning and error logged since the last call; the daemon's log is limited
 * to 64 KiB between calls. */
void private_daemon_read_errors(struct private_daemon *daemon,
				void (*line)(const char *text, void *data), void *data);
/* Ends the daemon and removes its directory; waits for both. */
struct private_daemon *private_daemon_free(struct private_daemon *daemon);
