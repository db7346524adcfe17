/* SPDX-License-Identifier: Apache-2.0 */
/* What of a target is to be probed: its files, opened by the broker, and a plan for each. Nothing
 * is attached by it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/capture/budget/forecast.h"
#include "daemon/discovery/target.h"
#include "daemon/plan/detail.h"
#include "daemon/plan/plan_cache.h"
#include "daemon/proxy/proxy.h"

struct prepared_file {
	uint32_t id; /* the broker's number */
	uint64_t device, inode, size;
	bool known; /* the plan came from the cache */
	struct plan *plan;
};

struct prepared {
	struct target target; /* a copy; its files go with the following */
	struct prepared_file files[TARGET_FILES_MAX];
	unsigned n_files;
	bool filtered;      /* a seccomp filter stands before its system calls */
	char not_read[160]; /* why a file beside the runtime's is not among them, "": all are */
};

/*
 * On failure ret_text says what to do: -ESRCH (it has ended), -ENOENT (it has none of the runtime's
 * functions), and errors of reading its files. *ret is to be freed by prepared_done() when it
 * succeeds.
 */
int prepare_target(struct proxy *proxy, struct plan_cache *plans, const struct target *target,
		   struct prepared *ret, char *ret_text, size_t text_size);
/* The broker's files are not closed while a capture has sites in them. */
void prepared_done(struct prepared *p, struct proxy *proxy);

/* Whether a site of the target can be planted: it is not refused, and not that of another release.
 */
bool prepared_uses(const struct prepared *p, const struct plan_site *site);
/* Why not; NULL: it can. */
const char *prepared_refusal(const struct prepared *p, const struct plan_site *site);
/* Whether a site of this probe can be planted. */
bool prepared_has(const struct prepared *p, unsigned spec);
/* Whether a site of a row with that verb on that kind of work can be. */
bool prepared_does(const struct prepared *p, enum verb verb, enum work work);
/*
 * The next sentence about what will not be shown; *spec is where the search goes on, 0 at first.
 * False: there is none any more.
 */
bool prepared_next_missing(const struct prepared *p, const struct detail *detail, unsigned *spec,
			   char *ret_text, size_t text_size);
/*
 * What of a target is not among those that are prepared: it may have mapped one more file. What is
 * beside the runtime does not come later by itself. It may have no files.
 */
struct target prepared_what_is_new(const struct prepared *list, unsigned n,
				   const struct target *target);

/* What a capture attaches. It lives as long as the capture. */
struct capture_plan {
	const struct prepared *targets;
	unsigned n_targets;
	struct detail detail;
	struct forecast forecast;
};

/* Whether its requests are looked for at sockets: where a target has no functions that tell of
 * them. */
bool capture_plan_follows_sockets(const struct capture_plan *plan);
