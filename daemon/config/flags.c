/* SPDX-License-Identifier: Apache-2.0 */
/* Part of keys.h: the configuration's flags: one for each key of [daemon], and a few that a file
 * cannot have. */
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "daemon/config/keys.h"
#include "lib/base/macro.h"

enum {
	FLAG_CONFIG = CONFIG_KEYS_MAX,
	FLAG_CHECK,
	FLAG_FOREGROUND,
	FLAG_NO_LISTEN,
	FLAG_TARGET,
	FLAG_HELP,
	FLAG_VERSION
};

static const struct option own_flags[] = {
	{ "config", required_argument, NULL, FLAG_CONFIG },
	{ "check-config", no_argument, NULL, FLAG_CHECK },
	{ "foreground", no_argument, NULL, FLAG_FOREGROUND },
	{ "no-listen", no_argument, NULL, FLAG_NO_LISTEN },
	{ "target", required_argument, NULL, FLAG_TARGET },
	{ "help", no_argument, NULL, FLAG_HELP },
	{ "version", no_argument, NULL, FLAG_VERSION },
};

static void print_help(void)
{
	puts("Usage: tfprofd [OPTION]...\n"
	     "Profiles model servers from outside and answers TensorBoard's capture button.\n\n"
	     "  --config FILE\n        the file with the keys below, in [daemon], and with sections [target GLOB]; none unless given\n"
	     "  --check-config\n        only say whether the configuration can be used\n"
	     "  --foreground\n        stay in the foreground");
	for (size_t i = 0; i < n_config_keys; i++)
		printf("  --%s%s%s\n        %s\n", config_keys[i].name,
		       config_keys[i].argument ? " " : "[=yes|no]", config_keys[i].argument ?: "",
		       config_keys[i].help);
	puts("  --target GLOB:KEY=VALUE\n        a key of the section [target GLOB], before those of the file; several times for several\n"
	     "  --no-listen\n        no TCP at all: --listen no --target-ports no --tls-listen no\n"
	     "  --help, --version\n\n"
	     "Keys of the file and flags are the same; what a flag says goes before what the file says. SIGHUP has the file read again.");
}

static int take_key(struct config *config, int index, const char *value, char *ret_text,
		    size_t text_size)
{
	char text[CONFIG_TEXT];
	int r = config_keys[index].take(&config_keys[index], config, value, text);

	if (r < 0)
		snprintf(ret_text, text_size, "--%s: %s", config_keys[index].name, text);
	config->is_flag[index] = true;
	return r;
}

static int take_no_listen(struct config *config, char *ret_text, size_t text_size)
{
	static const char *const names[] = { "listen", "target-ports", "tls-listen" };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++)
		r = take_key(config, config_key_find(names[i]), "no", ret_text, text_size);
	return r;
}

/* Adds to the last section when that is of the same processes. */
static int take_target(struct config *config, unsigned *seen, const char *value, char *ret_text,
		       size_t text_size)
{
	struct config_target *target =
		config->n_targets ? &config->targets[config->n_targets - 1] : NULL;
	const char *equals = strchr(value, '='),
		   *colon = equals ? memrchr(value, ':', (size_t)(equals - value)) : NULL;
	char name[40], text[CONFIG_TEXT];
	int r = 0;

	if (!colon || colon == value) {
		snprintf(ret_text, text_size, "--target takes GLOB:KEY=VALUE, not %s", value);
		return -EINVAL;
	}
	snprintf(name, sizeof(name), "%.*s", (int)(equals - colon - 1), colon + 1);
	if (!target || strlen(target->pattern) != (size_t)(colon - value) ||
	    strncmp(target->pattern, value, (size_t)(colon - value))) {
		*seen = 0;
		r = config_target_add(config, value, (size_t)(colon - value), &target, text);
	}
	if (r == 0)
		r = config_target_take(target, seen, name, equals + 1, text);
	if (r < 0)
		snprintf(ret_text, text_size, "--target %s: %s", value, text);
	return r;
}

static int take_file(struct config *config, const char *value, char *ret_text, size_t text_size)
{
	char directory[PATH_MAX] = "";
	int n;

	/* It was read before. */
	if (*config->file)
		return 0;
	/* The daemon goes to /, and reads the file again; a link may lead elsewhere then. */
	if (*value != '/' && !getcwd(directory, sizeof(directory))) {
		snprintf(ret_text, text_size, "cannot read %s: %s", value, strerror(errno));
		return -errno;
	}
	n = snprintf(config->file, sizeof(config->file), "%s%s%s", directory, *directory ? "/" : "",
		     value);
	if (n >= 0 && (size_t)n < sizeof(config->file))
		return 0;
	snprintf(ret_text, text_size, "the path is too long: %s", value);
	return -ENAMETOOLONG;
}

int config_read_flags(struct config *config, int argc, char *argv[], char *ret_text,
		      size_t text_size)
{
	struct option options[CONFIG_KEYS_MAX + ARRAY_SIZE(own_flags) + 1] = {};
	unsigned seen = 0;
	int c, r = 0;

	for (size_t i = 0; i < n_config_keys; i++)
		options[i] = (struct option){ config_keys[i].name,
					      config_keys[i].argument ? required_argument
								      : optional_argument,
					      NULL, (int)i };
	memcpy(options + n_config_keys, own_flags, sizeof(own_flags));
	optind = 0;
	while (r == 0 && (c = getopt_long(argc, argv, "", options, NULL)) >= 0)
		switch (c) {
		case FLAG_CONFIG:
			r = take_file(config, optarg, ret_text, text_size);
			break;
		case FLAG_CHECK:
			config->check = true;
			break;
		case FLAG_FOREGROUND:
			config->foreground = true;
			break;
		case FLAG_NO_LISTEN:
			r = take_no_listen(config, ret_text, text_size);
			break;
		case FLAG_TARGET:
			r = take_target(config, &seen, optarg, ret_text, text_size);
			break;
		case FLAG_HELP:
			print_help();
			return 1;
		case FLAG_VERSION:
			puts("tfprofd " TFPROFD_VERSION);
			return 1;
		case '?':
			snprintf(ret_text, text_size, "see tfprofd --help");
			return -EINVAL;
		default:
			r = take_key(config, c, optarg ?: "yes", ret_text, text_size);
		}
	if (r == 0 && optind < argc) {
		snprintf(ret_text, text_size, "unexpected argument %s; see tfprofd --help",
			 argv[optind]);
		r = -EINVAL;
	}
	return r;
}
