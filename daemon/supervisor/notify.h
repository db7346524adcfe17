/* SPDX-License-Identifier: Apache-2.0 */
/* Reports to systemd (sd_notify(3)): that clients are served, that the daemon stops, and that it is
 * alive. */
#pragma once

#include <stdint.h>

#include "daemon/broker/message.h"

struct notify {
	int fd; /* connected; -1: nobody is to be notified */
	/* How often to report that the daemon is alive; 0: never. */
	uint64_t watchdog_ns;
};

/* Reads the environment, and removes from it what concerns this. A socket that cannot be reached is
 * logged. */
void notify_open(struct notify *ret);
/* -EINVAL: there is no such state. */
int notify_send(int fd, enum broker_state state);
