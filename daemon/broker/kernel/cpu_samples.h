/* SPDX-License-Identifier: Apache-2.0 */
/* A clock of a CPU that runs a BPF program. */
#pragma once

/*
 * The program runs that many times a second on the CPU, whatever the CPU executes. Returns the link
 * and, in *ret_event, its event; both are the caller's. -ENODEV: the CPU is offline; -EACCES: the
 * kernel does not permit it; and others.
 */
int cpu_samples_link(int program, int cpu, unsigned hz, int *ret_event);
