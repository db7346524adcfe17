/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of the configuration: those of [daemon], each of which is also a flag, and those of
 * sections for targets, for access and for triggers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "daemon/config/config.h"

struct config_key {
	const char *name;
	/* For --help, NULL: yes or no; as a flag without an argument, yes. */
	const char *argument;
	const char *help;
	/* -EINVAL, with the reason in text. */
	int (*take)(const struct config_key *key, struct config *config, const char *value,
		    char text[static CONFIG_TEXT]);
	size_t offset, size; /* of what it sets */
	bool reloads;        /* may change while the daemon runs */
};

extern const struct config_key config_keys[];
extern const size_t n_config_keys;

void config_set_defaults(struct config *config);
/* The index of the key in the table, or -ENOENT. */
int config_key_find(const char *name);
/* Refuses a key that is not one of the names: text then contains the nearest one. -EINVAL. */
int config_refuse_key(const char *key, const char *const *names, size_t n_names,
		      char text[static CONFIG_TEXT]);
/* The index of a key of a section in a table of at most 32 rows, each of which begins with its name
 * and has this size; seen: a bit for each that the section has had. -EINVAL: it is unknown, or
 * given twice. */
int config_section_key(const char *key, const void *rows, size_t n_rows, size_t row_size,
		       unsigned *seen, char text[static CONFIG_TEXT]);
/* "yes" or "no"; -EINVAL, with the reason in text. */
int config_take_bool(const char *value, bool *ret, char text[static CONFIG_TEXT]);
int config_take_level(const char *value, uint32_t *ret, char text[static CONFIG_TEXT]);
/* Checks that the keys of the file and the flags are consistent. */
int config_check(const struct config *config, char text[static CONFIG_TEXT]);

/* A key of a target's section. *seen has a bit for each key that the section has set. -EINVAL,
 * -ENOMEM, with the reason in text. */
int config_target_take(struct config_target *target, unsigned *seen, const char *name,
		       const char *value, char text[static CONFIG_TEXT]);
/* Adds a section; -E2BIG, -ENOMEM, with the reason in text. */
int config_target_add(struct config *config, const char *pattern, size_t size,
		      struct config_target **ret, char text[static CONFIG_TEXT]);

/* The same for a section [access NAME]. -EINVAL. */
int config_access_take(struct access_rule *rule, unsigned *seen, const char *name,
		       const char *value, char text[static CONFIG_TEXT]);
int config_access_add(struct config *config, const char *name, size_t size,
		      struct access_rule **ret, char text[static CONFIG_TEXT]);
/* The same for a section [trigger NAME]. -EINVAL. */
int config_trigger_take(struct trigger_rule *rule, unsigned *seen, const char *name,
			const char *value, char text[static CONFIG_TEXT]);
int config_trigger_add(struct config *config, const char *name, size_t size,
		       struct trigger_rule **ret, char text[static CONFIG_TEXT]);
/* Once all is read: completes the sections, or refuses them. -EINVAL. */
int config_triggers_finish(struct config *config, char text[static CONFIG_TEXT]);
/* Finds the numbers of the users and groups. -EINVAL. */
int config_access_resolve(struct config *config, char text[static CONFIG_TEXT]);

/* Reads the file's text, and closes the file; name is for messages. */
int config_read_file(struct config *config, FILE *file, const char *name, char *ret_text,
		     size_t text_size);
/* Reads the flags alone. 1: --help or --version was given and printed. */
int config_read_flags(struct config *config, int argc, char *argv[], char *ret_text,
		      size_t text_size);
