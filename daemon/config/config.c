/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "daemon/config/keys.h"
#include "lib/base/macro.h"

struct config *config_free(struct config *config)
{
	if (!config)
		return NULL;
	for (unsigned i = 0; i < config->n_targets; i++) {
		free(config->targets[i].pattern);
		free(config->targets[i].path);
		free(config->targets[i].model);
	}
	free(config);
	return NULL;
}

/* Reads the flags, then the file: the one behind the descriptor, with its path, or with -1 the one
 * that the flags name. */
static int read_all(struct config *config, int argc, char *argv[], const char *path, int fd,
		    char *ret_text, size_t text_size)
{
	char text[CONFIG_TEXT];
	FILE *file;
	int r;

	config_set_defaults(config);
	snprintf(config->file, sizeof(config->file), "%s", path);
	r = config_read_flags(config, argc, argv, ret_text, text_size);
	if (r != 0) {
		safe_close(fd);
		return r;
	}
	if (*config->file) {
		file = fd >= 0 ? fdopen(fd, "r") : fopen(config->file, "re");
		if (!file) {
			r = -errno;
			safe_close(fd);
			snprintf(ret_text, text_size, "cannot read %s: %s", config->file,
				 strerror(-r));
			return r;
		}
		r = config_read_file(config, file, config->file, ret_text, text_size);
	}
	if (r == 0) {
		r = config_check(config, text);
		if (r == 0)
			r = config_triggers_finish(config, text);
		if (r < 0)
			snprintf(ret_text, text_size, "%s%s%s", config->file,
				 *config->file ? ": " : "", text);
	}
	return r;
}

int config_resolve(struct config *config, char *ret_text, size_t text_size)
{
	char text[CONFIG_TEXT];
	int r = config_access_resolve(config, text);

	if (r < 0)
		snprintf(ret_text, text_size, "%s%s%s", config->file, *config->file ? ": " : "",
			 text);
	return r;
}

int config_new(int argc, char *argv[], struct config **ret, char *ret_text, size_t text_size)
{
	struct config *config = malloc(sizeof(*config));
	int r;

	if (!config) {
		snprintf(ret_text, text_size, "out of memory");
		return -ENOMEM;
	}
	r = read_all(config, argc, argv, "", -1, ret_text, text_size);
	if (r == 0)
		r = config_resolve(config, ret_text, text_size);
	if (r != 0) {
		config_free(config);
		return r;
	}
	*ret = config;
	return 0;
}

int config_renew(const struct config *old, int argc, char *argv[], int file_fd,
		 void (*restart)(const char *name, void *data), void *data, struct config **ret,
		 char *ret_text, size_t text_size)
{
	struct config *config = malloc(sizeof(*config));
	char text[CONFIG_TEXT];
	int r = -ENOMEM;

	if (config)
		r = read_all(config, argc, argv, old->file, file_fd, ret_text, text_size);
	else {
		safe_close(file_fd);
		snprintf(ret_text, text_size, "out of memory");
	}
	if (r < 0) {
		config_free(config);
		return r;
	}
	for (size_t i = 0; i < n_config_keys; i++) {
		const struct config_key *key = &config_keys[i];
		char *now = (char *)config + key->offset;
		const char *was = (const char *)old + key->offset;

		if (!config->is_flag[i] && (key->reloads || !memcmp(now, was, key->size)))
			continue;
		/* Flags keep their values, even a path relative to a directory that was left
		 * since. */
		if (!config->is_flag[i])
			restart(key->name, data);
		memcpy(now, was, key->size);
	}
	/* They need the recorder and the directory that the daemon has since its start. */
	if (config_triggers_finish(config, text) < 0) {
		restart("[trigger]", data);
		memcpy(config->triggers, old->triggers, sizeof(config->triggers));
		config->n_triggers = old->n_triggers;
	}
	*ret = config;
	return 0;
}
