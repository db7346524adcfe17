/* Which instructions of a file to probe for a runtime: the symbols of its pack, found in the file, each with the best site. */
#pragma once

#include <stdint.h>

#include "daemon/plan/pack.h"
#include "daemon/plan/site.h"

struct plan_site {
	uint64_t offset; /* of the instruction, in the file */
	uint32_t stack_offset;
	enum site_class class;
	unsigned spec; /* index into the pack's probes */
};

struct plan {
	unsigned references;
	const struct probe_pack *pack;
	char build_id[64 + 1]; /* hexadecimal, "" when the file has none */
	struct plan_site *sites;
	unsigned n_sites;
};

/*
 * Plans the probes of a pack in an ELF file, which is read through its descriptor. ret_reason is a constant string. Errors as in
 * lib/elf/image.h. A file without any of the functions is no error: the plan is then empty.
 */
int plan_new(int fd, const struct probe_pack *pack, struct plan **ret, const char **ret_reason);
/* Gives one reference back, from any thread. */
struct plan *plan_unref(struct plan *plan);

/* Whether the file holds the runtime: runs or operations begin in it. */
bool plan_holds_runtime(const struct plan *plan);

/* The attach cookie (include/record.h) of a site, for the target with this index in the capture. */
uint64_t plan_cookie(const struct plan *plan, const struct plan_site *site, unsigned target);

/*
 * Plans of files seen before, by (device, inode, size, change time): a build-id is only a label. Bounded; for any thread. The caller
 * gets a reference of its own.
 */
struct plan_cache;
int plan_cache_new(struct plan_cache **ret);
struct plan_cache *plan_cache_free(struct plan_cache *cache);
int plan_cache_get(struct plan_cache *cache, int fd, const struct probe_pack *pack, struct plan **ret, const char **ret_reason);

static inline void plan_unrefp(struct plan **plan)
{
	plan_unref(*plan);
}
