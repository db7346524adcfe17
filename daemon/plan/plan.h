/* SPDX-License-Identifier: Apache-2.0 */
/* Which instructions of a file to probe for a runtime: the functions of its set, found in the file,
 * each with the best site. */
#pragma once

#include <stdint.h>

#include "daemon/plan/packs.h"
#include "daemon/plan/site.h"
#include "include/record_types.h"
#include "lib/elf/symbols.h"
#include "lib/elf/table.h"

#define PLAN_SITES_MAX 4096
/* Of one list. */
#define PLAN_NAMES_MAX 1024

/* What is wanted of a file. */
enum plan_wanted {
	PLAN_WHOLE,
	PLAN_BRIEF, /* only the release that it states, and no site */
	PLAN_KNOWN, /* the plan only if it was made before */
};

struct plan_site {
	unsigned spec;             /* number of the row in the set */
	enum symbol_source source; /* how the function was found */
	/* Its mangled name, "class, slot n", or "provider:name"; NULL in the broker. */
	char *symbol;
	uint32_t index;    /* of the symbol in its table, if it was found by one */
	uint64_t function; /* offset of its entry in the file */
	uint64_t size;     /* of the function, bytes */
	uint64_t offset;   /* of the instruction, in the file */
	/* Offset of a counter that the kernel increments while the probe is attached; 0: none. */
	uint64_t semaphore;
	uint64_t note; /* offset in the file of the note that declares it */
	/* Of a class: the file is one of the builds whose slots the pack has. */
	bool slot_known;
	/* Virtual addresses of the row's objects. */
	uint64_t objects[ROW_OBJECTS];
	/* Class, instruction, where the arguments are; or why it is refused. */
	struct site site;
};

/* The names of a pack's operations, by their numbers. */
struct plan_names {
	char (*texts)[TABLE_STRING_MAX + 1];
	uint32_t n;
};

struct plan {
	unsigned references;
	const struct pack_set *packs;
	char build_id[64 + 1]; /* hexadecimal, "" if the file has none */
	char version[96]; /* the release that the file states, or "build-id:…"; "": neither */
	struct plan_site *sites; /* in the order of the specs; refused ones, too */
	unsigned n_sites, size;
	struct plan_names
		names[RECORD_LAYOUTS]; /* by the number of the pack among the named ones */
	char *texts; /* that symbols and reasons point into; NULL: the symbols are allocated */
};

struct plan *plan_ref(struct plan *plan);
/* Releases one reference, from any thread. */
struct plan *plan_unref(struct plan *plan);

/* An empty plan to be filled by plan_add(). -ENOMEM. */
int plan_make(const struct pack_set *set, const char *build_id, struct plan **ret);
/*
 * Adds a function of the image and chooses its site. Of the entry only spec, source, symbol
 * (copied), index, function, size and semaphore are read. -E2BIG beyond PLAN_SITES_MAX, -ENOMEM,
 * and what reading the file returns.
 */
int plan_add(struct plan *plan, const struct elf_image *image, const struct plan_site *entry);

/* Whether the error of a search means that the file does not have it, or not in a form that can be
 * read. */
bool plan_lacks(int error);
/* Which arguments the row needs, a bit each. */
uint64_t plan_arguments(const struct probe_row *row);

/* Whether the function at that offset of the file is in it. */
bool plan_has_function(const struct plan *plan, uint64_t function);

/* Whether functions of this row were found. */
bool plan_finds(const struct plan *plan, unsigned spec);

/* Whether the site is in the function that its row means, in a process of this release: in another
 * release's virtual table the slot would be another function. */
bool plan_is_of_release(const struct pack_set *set, const struct plan_site *site,
			const char *release);

/* Whether the file contains the runtime: runs or operations begin in it. */
bool plan_holds_runtime(const struct plan *plan);

/* Whether it has static probes. */
bool plan_has_marks(const struct plan *plan);

/* The attach cookie (include/record.h) of a site that is not refused, for the target with this
 * index in the capture. */
uint64_t plan_cookie(const struct plan *plan, const struct plan_site *site, unsigned target);
/* Whether the site's reads are in a path, whose number the broker puts into the cookie. */
bool plan_read_path(const struct plan *plan, const struct plan_site *site, struct record_path *ret);

static inline void plan_unrefp(struct plan **plan)
{
	plan_unref(*plan);
}
