/* SPDX-License-Identifier: Apache-2.0 */
/* The certificates and the key of the daemon's TLS listener, out of files that were opened with
 * more rights. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lib/grpc/tls.h"

/* In the order of enum broker_reload. */
enum { PEM_CERTIFICATE, PEM_KEY, PEM_CLIENT_CA, PEM_COUNT };

/*
 * Reads the descriptors, which stay the caller's; -1: there is none, which is a failure (-ENOENT)
 * where one is wanted. On failure ret_text is a sentence: -EINVAL, -EFBIG, -ENOMEM, or an error of
 * read.
 */
int pem_read(const int fds[static PEM_COUNT], const bool wanted[static PEM_COUNT],
	     struct grpc_tls **ret, char *ret_text, size_t text_size);
