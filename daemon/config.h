/*
 * The daemon's configuration file (docs/requests.md): sections of keys, a section for some of the targets. It is root's, read once before
 * the daemon serves anybody.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "daemon/correlate/filter.h"

#define CONFIG_TARGETS_MAX 256

/* What captures at the port of a target of its own are like; zeros: as without a configuration. */
struct config_target {
	char *pattern; /* a glob of the process's name or of its pid */
	char *path, *model; /* of the filter */
	struct request_filter filter;
	double max_overhead; /* percent */
	unsigned level;
};

struct config {
	struct config_target targets[CONFIG_TARGETS_MAX];
	unsigned n_targets;
};

/*
 * Reads the file. On failure ret_text is a sentence with the file and, where there is one, the line: -EINVAL (what it says is not
 * understood), -ENOMEM, or why it cannot be read.
 */
int config_read(const char *path, struct config **ret, char *ret_text, size_t text_size);
struct config *config_free(struct config *config);

/* The first section that a process is of, NULL: none. A config of NULL has none. */
const struct config_target *config_find(const struct config *config, pid_t pid, const char *name);
