/* SPDX-License-Identifier: Apache-2.0 */
/* A library of generated functions: loaded, and with a site chosen for each. */
#pragma once

#include "daemon/plan/site.h"
#include "tests/sites/functions.h"
#include "tests/sites/trace.h"

struct chosen {
	char name[64];
	const struct function *function; /* NULL: the library's table does not have it */
	uint64_t offset;                 /* of the entry in the file */
	struct site site;
	char first[16]; /* the mnemonic of the first instruction */
};

struct library {
	int fd;
	struct chosen *chosen;
	unsigned n;
};

/*
 * Chooses the sites of all functions of an ELF file whose names match the pattern. mask: the
 * arguments of those without an entry in table, which may be NULL. Prints what is wrong. Returns 0
 * or a negative errno.
 */
int library_open(const char *path, const char *pattern, const struct function *table, uint32_t mask,
		 struct library *ret);
void library_close(struct library *library);

/* Attaches to the sites of all functions that have one, each with its index in the cookie; as
 * trace_attach. */
int library_attach(const struct library *library, struct trace *trace, pid_t pid);
