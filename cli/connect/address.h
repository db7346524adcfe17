/* SPDX-License-Identifier: Apache-2.0 */
/* Where a daemon is, and how to connect to it. */
#pragma once

#include <stdbool.h>

#define DAEMON_DEFAULT_ADDRESS "unix:/run/tfprofd/tfprofd.sock"

struct daemon_address {
	const char *text; /* NULL: the default */
	bool tls;
	const char *authorities, *certificate, *key; /* PEM files, NULL: none */
};
