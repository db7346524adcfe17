/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XLA's modules: what Graph Viewer and Memory Viewer show. They are not part of the timeline: XLA
 * wrote them as files when it compiled them, each an xla.HloProto, which is passed on unchanged.
 * Pure.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define MODULES_MAX 64
/* Length of a module's own name: with its id, and the suffix of readers, it is a file name. */
#define MODULE_NAME_BYTES 215
/* Of all modules of a capture. */
#define MODULES_BYTES_MAX (64u << 20)

struct module {
	uint64_t id;    /* unique among them: XLA's own, unless a module of another process has the
			   same */
	char name[256]; /* as readers know it: "NAME(ID)" */
	uint8_t *bytes;
	size_t size;
};

/* Zeroed at first. */
struct modules {
	struct module list[MODULES_MAX];
	unsigned n;
	uint64_t bytes; /* that were read, including those of other files */
};

/*
 * Adds a copy. -EBADMSG: it is not a complete xla.HloProto; -EINVAL: its name is not valid for a
 * file: empty, too long, hidden, or not of printable ASCII without spaces and slashes; XLA's own
 * names have letters, digits, "_", "." and "-"; -ENOBUFS: there is no room for it; -ENOMEM.
 */
int modules_add(struct modules *m, const void *bytes, size_t size);
void modules_done(struct modules *m);
