/* SPDX-License-Identifier: Apache-2.0 */
/* The file of the audit log, in the state directory: whole lines, and the older ones in another
 * file.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct audit_file {
	int directory, fd; /* -1: none */
	uint64_t bytes;
};

/* -errno: it cannot be opened, or its unfinished last line cannot be ended. */
int audit_file_open(struct audit_file *f);
/* Appends the line, whole or not at all; -errno. */
int audit_file_write(struct audit_file *f, const char *text, size_t length);
