/* SPDX-License-Identifier: Apache-2.0 */
/* The certificates and the key of the daemon's TLS listener, from files that were opened with more
 * privileges. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lib/grpc/tls.h"

/* In the order of enum broker_reload. */
enum { PEM_CERTIFICATE, PEM_KEY, PEM_CLIENT_CA, PEM_REVOKED, PEM_COUNT };

/*
 * Reads the descriptors, which the caller still owns; -1: none, which is an error (-ENOENT) if it
 * is wanted. On failure ret_text is a sentence: -EINVAL, -EFBIG, -ENOMEM, or an error of read.
 */
int pem_read(const int fds[static PEM_COUNT], const bool wanted[static PEM_COUNT],
	     struct grpc_tls **ret, char *ret_text, size_t text_size);
