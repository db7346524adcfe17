/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration and the certificate as the supervisor keeps them, for roles that it starts
 * again. Both are files of root. */
#pragma once

#include "daemon/config/config.h"
#include "lib/grpc/tls.h"

/* Reads the certificate and its key, and checks the file of the certificates' users. *ret: NULL if
 * none is configured. -errno, with the sentence in ret_text. */
int settings_read_tls(const struct config *config, struct grpc_tls **ret, char *ret_text,
		      size_t text_size);
/* Reads both again, and looks up the names of users and groups. What cannot be used changes
 * nothing; the log has the reason. -errno. */
int settings_renew(struct config **config, struct grpc_tls **tls, int argc, char *argv[]);
