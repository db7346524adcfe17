/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file tls-users: which user a client with a certificate counts as. Each line is a user, by
 * name or number, and a name in the certificate: its subject (RFC 2253: "CN=alice,O=Example"), or
 * an alternative name ("DNS:", "URI:" or "email:" before it). # begins a comment.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define CERTIFICATE_NAME_MAX 256

struct certificates;

/*
 * Users are those of /etc/passwd, or numbers. The file must belong to root, and nobody else may
 * write it. -errno, with the reason in ret_text.
 */
int certificates_read(const char *path, struct certificates **ret, char *ret_text,
		      size_t text_size);
struct certificates *certificates_free(struct certificates *c);

/* -ENOENT: no user has a certificate with this name. */
int certificates_find(const struct certificates *c, const char *name, uid_t *ret);
