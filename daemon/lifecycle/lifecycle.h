/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the targets started, until their first request. What the kernel reports about every process
 * is always known; if root configures it, starting processes are also watched: with a few probes,
 * from the time that their runtime is mapped until they serve their first request. The functions
 * here are called in the loop's thread, except lifecycles_get() and lifecycles_track(), which may
 * be called from any.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/correlate/runtime/startup.h"
#include "daemon/discovery/target.h"
#include "daemon/proxy/proxy.h"
#include "lib/base/loop.h"

struct lifecycles;

struct lifecycles_options {
	struct loop *loop;
	struct proxy *proxy; /* borrowed, like those below */
	int cache;
	bool watches;              /* watch starting processes */
	void (*ended)(void *data); /* in the loop's thread, after lifecycles_end() */
	void *data;
};

/* -ENOMEM, -EAGAIN. */
int lifecycles_new(const struct lifecycles_options *options, struct lifecycles **ret);
/* Detaches, calls ended() and frees itself. */
void lifecycles_end(struct lifecycles *l);
/* A process became a target, or has mapped more files; the target is copied. */
void lifecycles_add(struct lifecycles *l, const struct target *target);
void lifecycles_remove(struct lifecycles *l, const struct target *target);

#define LIFECYCLE_NOTE 192

struct lifecycle {
	struct startup startup;
	bool is_watched; /* at present */
	/* Why some of it is unknown: a sentence without its period; "": everything that can be
	 * known is. */
	char note[LIFECYCLE_NOTE];
};

/* False: it is not a target. looks: also examine its threads, which takes time. */
bool lifecycles_get(struct lifecycles *l, const struct target *target, bool looks,
		    struct lifecycle *ret);
/* The same as phases, without examining its threads; for captures (struct lifecycles *). */
bool lifecycles_track(const struct target *target, struct startup_track *ret, void *lifecycles);
