/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XLA's modules: what Graph Viewer and Memory Viewer show. They are no part of the timeline: XLA
 * wrote them as files when it compiled them, each an xla.HloProto, which is passed on as it is.
 * Pure.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define MODULES_MAX 64
/* Of a module's own name: with its number, and the suffix of readers, it is the name of a file. */
#define MODULE_NAME_BYTES 215
/* Of all modules of a capture. */
#define MODULES_BYTES_MAX (64u << 20)

struct module {
	uint64_t id; /* unique among them: XLA's own, unless another process's module has it, too */
	char name[256]; /* as readers know it: "NAME(ID)" */
	uint8_t *bytes;
	size_t size;
};

/* Zeroed at first. */
struct modules {
	struct module list[MODULES_MAX];
	unsigned n;
	uint64_t bytes; /* that were looked at, also of those that are none */
};

/*
 * Adds a copy. -EBADMSG: it is no whole xla.HloProto; -EINVAL: its name is none for a file: empty,
 * too long, hidden, or not of printable ASCII without spaces and slashes; XLA's own names have
 * letters, digits, "_", "." and "-"; -ENOBUFS: there is no room for it; -ENOMEM.
 */
int modules_add(struct modules *m, const void *bytes, size_t size);
void modules_done(struct modules *m);
