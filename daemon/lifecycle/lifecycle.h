/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the targets came to serve. What the kernel tells of every process is always known; when root
 * wants it, processes that start are watched besides: a few probes, from the time that their
 * runtime is mapped until they serve their first request. The functions here are called in the
 * loop's thread, but lifecycles_get() and lifecycles_track(), which any may call.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/correlate/runtime/startup.h"
#include "daemon/discovery/target.h"
#include "daemon/plan/plan_cache.h"
#include "daemon/proxy/proxy.h"
#include "lib/base/loop.h"

struct lifecycles;

struct lifecycles_options {
	struct loop *loop;
	struct proxy *proxy; /* borrowed, as the following */
	struct plan_cache *plans;
	int cache;
	bool watches;              /* processes that start */
	void (*ended)(void *data); /* in the loop's thread, after lifecycles_end() */
	void *data;
};

/* -ENOMEM, -EAGAIN. */
int lifecycles_new(const struct lifecycles_options *options, struct lifecycles **ret);
/* Detaches, calls ended() and frees itself. */
void lifecycles_end(struct lifecycles *l);
/* A process came to be a target, or has mapped more files; it is copied. */
void lifecycles_add(struct lifecycles *l, const struct target *target);
void lifecycles_remove(struct lifecycles *l, const struct target *target);

#define LIFECYCLE_NOTE 192

struct lifecycle {
	struct startup startup;
	bool is_watched;           /* just now */
	char note[LIFECYCLE_NOTE]; /* why not all of it is known: a sentence without its point; "":
				      all is that can be */
};

/* False: it is no target. looks: also at its threads, which takes time. */
bool lifecycles_get(struct lifecycles *l, const struct target *target, bool looks,
		    struct lifecycle *ret);
/* The same as phases, without a look at its threads; for captures (struct lifecycles *). */
bool lifecycles_track(const struct target *target, struct startup_track *ret, void *lifecycles);
