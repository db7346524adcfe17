/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C and its like: they ask for an orderly end, in which nothing is left behind. */
#pragma once

#include <signal.h>

/* From now on SIGINT, SIGTERM and SIGHUP only raise the flag; SIGPIPE is ignored. */
void interrupt_catch(void);
/* In a child: signals as a program expects to find them. */
void interrupt_release(void);

/* The signal that came, 0: none. */
const volatile sig_atomic_t *interrupt_flag(void);
