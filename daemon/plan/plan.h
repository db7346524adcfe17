/* SPDX-License-Identifier: Apache-2.0 */
/* Which instructions of a file to probe for a runtime: the functions of its set, found in the
 * file, each with the best site. */
#pragma once

#include <stdint.h>

#include "daemon/plan/packs.h"
#include "daemon/plan/site.h"
#include "lib/elf/symbols.h"

#define PLAN_SITES_MAX 4096

struct plan_site {
	unsigned spec;             /* number of the row in the set */
	enum symbol_source source; /* how the function was found */
	char *symbol;              /* its mangled name, "class, slot n", or "provider:name" */
	uint32_t index;            /* of the symbol in its table, where the source is one */
	uint64_t function;         /* offset of its entry in the file */
	uint64_t size;             /* of the function, bytes */
	uint64_t offset;           /* of the instruction, in the file */
	uint64_t semaphore; /* offset of a counter that the kernel increments while the probe is
			       there; 0: none */
	uint64_t note;      /* offset of the note that says so, in the file */
	bool slot_known;    /* of a class: the file is of the builds whose slots the pack has */
	struct site site;   /* class, instruction, where the arguments are; or why it is refused */
};

struct plan {
	unsigned references;
	const struct pack_set *packs;
	char build_id[64 + 1];   /* hexadecimal, "" when the file has none */
	struct plan_site *sites; /* in the order of the specs; refused ones, too */
	unsigned n_sites, size;
};

/*
 * Plans the probes of a pack in an ELF file, which is read through its descriptor. ret_reason is a
 * constant string. Errors as in lib/elf/image.h. A file without any of the functions is no error:
 * the plan is then empty.
 */
int plan_new(int fd, const struct pack_set *set, struct plan **ret, const char **ret_reason);
struct plan *plan_ref(struct plan *plan);
/* Gives one reference back, from any thread. */
struct plan *plan_unref(struct plan *plan);

/* An empty plan to be filled by plan_add(). -ENOMEM. */
int plan_make(const struct pack_set *set, const char *build_id, struct plan **ret);
/*
 * Adds a function of the image and chooses its site. Of the entry only spec, source, symbol
 * (copied), index, function, size and semaphore are read. -E2BIG beyond PLAN_SITES_MAX, -ENOMEM,
 * and what reading the file returns.
 */
int plan_add(struct plan *plan, const struct elf_image *image, const struct plan_site *entry);

/* Adds the static probes that the pack asks for, and puts all sites in order. Errors as plan_new().
 */
int plan_add_static_probes(struct plan *plan, const struct elf_image *image,
			   const char **ret_reason);

/* Whether the file holds the runtime: runs or operations begin in it. */
bool plan_holds_runtime(const struct plan *plan);

/* Whether it has static probes. */
bool plan_has_marks(const struct plan *plan);

/* The attach cookie (include/record.h) of a site that is not refused, for the target with this
 * index in the capture. */
uint64_t plan_cookie(const struct plan *plan, const struct plan_site *site, unsigned target);

static inline void plan_unrefp(struct plan **plan)
{
	plan_unref(*plan);
}
