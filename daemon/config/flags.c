/* SPDX-License-Identifier: Apache-2.0 */
/* Part of keys.h: the configuration's flags: one for each key of [daemon], and a few that a file
 * cannot have. */
#include <errno.h>
#include <string.h>

#include "daemon/config/keys.h"
#include "lib/base/macro.h"
#include "lib/base/options.h"

#define SEE_HELP " (see tfprofd --help)"

enum {
	FLAG_HELP,
	FLAG_VERSION,
	FLAG_CONFIG,
	FLAG_CHECK,
	FLAG_FOREGROUND,
	FLAG_NO_LISTEN,
	FLAG_TARGET,
	FLAG_KEYS, /* the first of those that are also keys */
};

static const struct option_row own_flags[FLAG_KEYS] = {
	[FLAG_HELP] = { .name = "help", .letter = 'h', .help = "Show this help" },
	[FLAG_VERSION] = { .name = "version", .letter = 'V', .help = "Show the version" },
	[FLAG_CONFIG] = { .name = "config",
			  .argument = "FILE",
			  .help = "Configuration file: the keys below in the section [daemon], and "
				  "sections [target GLOB] (default: none)" },
	[FLAG_CHECK] = { .name = "check-config", .help = "Check the configuration and exit" },
	[FLAG_FOREGROUND] = { .name = "foreground", .help = "Stay in the foreground" },
	[FLAG_NO_LISTEN] = { .name = "no-listen",
			     .help = "Do not listen on TCP; the same as --listen no "
				     "--target-ports no --tls-listen no" },
	[FLAG_TARGET] = { .name = "target",
			  .argument = "GLOB:KEY=VALUE",
			  .help = "Set a key of the section [target GLOB]; takes precedence over the "
				  "file; may be repeated" },
};

_Static_assert(CONFIG_KEYS_MAX + ARRAY_SIZE(own_flags) <= OPTIONS_MAX, "room for every flag");

/* Lists the rows of all flags; returns their number. */
static size_t list_flags(struct option_row rows[static OPTIONS_MAX])
{
	memcpy(rows, own_flags, sizeof(own_flags));
	for (size_t i = 0; i < n_config_keys; i++)
		rows[FLAG_KEYS + i] = (struct option_row){
			.name = config_keys[i].name,
			.argument = config_keys[i].argument ?: "yes|no",
			.is_optional = !config_keys[i].argument,
			.help = config_keys[i].help,
			.heading = i ? NULL : "Keys of the section [daemon]:",
		};
	return FLAG_KEYS + n_config_keys;
}

static void print_help(const struct option_row *rows, size_t n_rows)
{
	puts("Usage: tfprofd [OPTION...]\n"
	     "Profile model servers from outside and serve captures to TensorBoard and tfprofctl.\n");
	options_print_help(stdout, rows, n_rows);
	puts("\nOptions take precedence over the configuration file. On SIGHUP the daemon reads the\n"
	     "file again. docs/configuration.md describes every key.");
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

/* Adds to the last section if it has the same pattern. */
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
		snprintf(ret_text, text_size, "invalid --target '%s': use GLOB:KEY=VALUE", value);
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

	/* The path was set by an earlier reading of the same flags. */
	if (*config->file)
		return 0;
	/* The daemon changes to / and reads the file again later: the path must be absolute. */
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

/* 1: --help or --version was given and printed. */
static int take_flag(struct config *config, int flag, const char *value, unsigned *seen,
		     char *ret_text, size_t text_size)
{
	switch (flag) {
	case FLAG_CONFIG:
		return take_file(config, value, ret_text, text_size);
	case FLAG_CHECK:
		config->check = true;
		return 0;
	case FLAG_FOREGROUND:
		config->foreground = true;
		return 0;
	case FLAG_NO_LISTEN:
		return take_no_listen(config, ret_text, text_size);
	case FLAG_TARGET:
		return take_target(config, seen, value, ret_text, text_size);
	case FLAG_VERSION:
		puts("tfprofd " TFPROFD_VERSION);
		return 1;
	default:
		return take_key(config, flag - FLAG_KEYS, value ?: "yes", ret_text, text_size);
	}
}

int config_read_flags(struct config *config, int argc, char *argv[], char *ret_text,
		      size_t text_size)
{
	struct option_row rows[OPTIONS_MAX];
	size_t n_rows = list_flags(rows);
	char error[OPTIONS_TEXT];
	struct options options;
	unsigned seen = 0;
	const char *value;
	int flag, r = 0;

	options_begin(&options, rows, n_rows, argc, argv);
	while (r == 0 && (flag = options_next(&options, &value, error)) != OPTIONS_END)
		if (flag == OPTIONS_ERROR) {
			snprintf(ret_text, text_size, "%s" SEE_HELP, error);
			r = -EINVAL;
		} else if (flag == OPTIONS_OPERAND) {
			snprintf(ret_text, text_size, "unexpected argument '%s'" SEE_HELP, value);
			r = -EINVAL;
		} else if (flag == FLAG_HELP) {
			print_help(rows, n_rows);
			r = 1;
		} else {
			r = take_flag(config, flag, value, &seen, ret_text, text_size);
		}
	return r;
}
