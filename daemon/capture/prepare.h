/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be probed in a target: its files, opened by the broker, and a plan for each. Nothing
 * is attached. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/capture/budget/forecast.h"
#include "daemon/discovery/target_file.h"
#include "daemon/plan/detail.h"
#include "daemon/proxy/proxy.h"

struct prepared_file {
	struct opened_file opened;
	bool known; /* the file was planned before */
	struct plan *plan;
};

struct prepared {
	struct target target; /* a copy; its files belong to the entries below */
	struct prepared_file files[TARGET_FILES_MAX];
	unsigned n_files;
	bool filtered; /* a seccomp filter restricts its system calls */
	bool is_child; /* it was not asked for: it works for one that was */
	/* Why a file beside the runtime's is missing; "": none is. */
	char not_read[160];
};

/*
 * On failure ret_text holds the remedy: -ESRCH (it has ended), -ENOENT (it has none of the
 * runtime's functions), and errors of reading its files. On success *ret is to be freed by
 * prepared_done().
 */
int prepare_target(struct proxy *proxy, const struct target *target, struct prepared *ret,
		   char *ret_text, size_t text_size);
/* Call it only when no capture has sites in the files, which it closes at the broker. */
void prepared_done(struct prepared *p, struct proxy *proxy);

/* Whether a site of the target can be probed: it is not refused, and not one of another release. */
bool prepared_uses(const struct prepared *p, const struct plan_site *site);
/* The same, and a capture of that detail wants the probe. */
bool prepared_wants(const struct prepared *p, const struct plan_site *site,
		    const struct detail *detail);
/* Why not; NULL: it can. */
const char *prepared_refusal(const struct prepared *p, const struct plan_site *site);
/* Whether a site of this probe can be probed. */
bool prepared_has(const struct prepared *p, unsigned spec);
/* Whether a site of a row with this verb on this kind of work can be probed. */
bool prepared_does(const struct prepared *p, enum verb verb, enum work work);
/* Whether it has operations, and no function where they end. */
bool prepared_lacks_ends(const struct prepared *p);
/*
 * The next sentence about what will not be shown; *spec, 0 at first, is the position of the search.
 * False: there are no more.
 */
bool prepared_next_missing(const struct prepared *p, const struct detail *detail, unsigned *spec,
			   char *ret_text, size_t text_size);
/*
 * The part of a target that is not among the prepared ones: it may have mapped another file. Files
 * beside the runtime's do not make it new. The result may have no files.
 */
struct target prepared_new_part(const struct prepared *list, unsigned n,
				const struct target *target);

/* What a capture attaches. It lives as long as the capture. */
struct capture_plan {
	const struct prepared *targets;
	unsigned n_targets;
	struct detail detail;
	struct forecast forecast;
	unsigned left_out; /* kinds for which there is no room, a bit each */
};

/* Whether requests are looked for at sockets: if a target has no functions that report them. */
bool capture_plan_follows_sockets(const struct capture_plan *plan);
