/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon of one command's own, for when none runs: it listens on a Unix socket in a fresh
 * directory that only its user can enter, and ends with the command, also when the command is
 * killed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct private_daemon;

/*
 * Starts the tfprofd that lies beside this program, else in ../sbin of it, else in PATH. -ENOENT
 * when there is none, or an error of mkdtemp, pipe or fork, or -ENOMEM.
 */
int private_daemon_start(struct private_daemon **ret);
/* The address of its socket, which exists once it is ready. */
const char *private_daemon_address(const struct private_daemon *daemon);
/* Whether it has ended; *ret_code is then its exit code, 128 + N when signal N ended it. */
bool private_daemon_ended(struct private_daemon *daemon, int *ret_code);
/* Waits until it has ended, a few seconds at most; whether it has. */
bool private_daemon_await_end(struct private_daemon *daemon, int *ret_code);
/* Calls line for each line of warnings and errors that it wrote since the last time; at most 64 KiB
 * are kept. */
void private_daemon_read_errors(struct private_daemon *daemon,
				void (*line)(const char *text, void *data), void *data);
/* Ends it and removes its directory; waits for both. */
struct private_daemon *private_daemon_free(struct private_daemon *daemon);
