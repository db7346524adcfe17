/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that end a command, such as Ctrl-C: the command cleans up first. */
#pragma once

#include <signal.h>

/* From now on SIGINT, SIGTERM and SIGHUP only set the flag; SIGPIPE is ignored. */
void interrupt_catch(void);
/* In a child process: restores the default action of every signal. */
void interrupt_release(void);

/* The signal that was received; 0: none. */
const volatile sig_atomic_t *interrupt_flag(void);
