/* SPDX-License-Identifier: Apache-2.0 */
/* Part of keys.h: the configuration's file: INI, by inih. */
#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <string.h>

#include "daemon/config/keys.h"
#include "lib/base/macro.h"

#define DAEMON_SECTION "daemon"
#define TARGET_SECTION "target "
#define ACCESS_SECTION "access "
#define TRIGGER_SECTION "trigger "

struct parser {
	FILE *file;
	struct config *config;
	/* Receives keys that flags have already set. */
	struct config scratch;
	/* Whose section is being read, NULL: none. */
	struct config_target *target;
	struct access_rule *access;
	struct trigger_rule *trigger;
	bool in_daemon;
	unsigned seen; /* keys of the section */
	bool is_seen[CONFIG_KEYS_MAX];
	unsigned line;
	int error; /* the first one */
	unsigned error_line;
	char text[CONFIG_TEXT];
};

/* Records the first error and its line. */
__attribute__((format(printf, 3, 4))) static void refuse(struct parser *p, int error,
							 const char *format, ...)
{
	va_list ap;

	if (p->error)
		return;
	p->error = error;
	p->error_line = p->line;
	va_start(ap, format);
	vsnprintf(p->text, sizeof(p->text), format, ap);
	va_end(ap);
}

enum section { SECTION_TARGET, SECTION_ACCESS, SECTION_TRIGGER };

/* [target GLOB], [access NAME] or [trigger NAME]. */
static void begin_named(struct parser *p, const char *name, const char *end, enum section section)
{
	static const char *const nameless[] = {
		[SECTION_TARGET] = "the section has no process pattern: use [target GLOB]",
		[SECTION_ACCESS] = "the section has no name: use [access NAME]",
		[SECTION_TRIGGER] = "the section has no name: use [trigger NAME]",
	};
	char text[CONFIG_TEXT];
	size_t size;
	int r;

	for (; *name == ' '; name++)
		;
	while (end > name && end[-1] == ' ')
		end--;
	if (end == name) {
		refuse(p, -EINVAL, "%s", nameless[section]);
		return;
	}
	size = (size_t)(end - name);
	if (section == SECTION_ACCESS)
		r = config_access_add(p->config, name, size, &p->access, text);
	else if (section == SECTION_TRIGGER)
		r = config_trigger_add(p->config, name, size, &p->trigger, text);
	else
		r = config_target_add(p->config, name, size, &p->target, text);
	if (r < 0)
		refuse(p, r, "%s", text);
}

/* The library reports only keys, keeps few bytes of a section's name, and accepts a section without
 * keys. */
static void begin_section(struct parser *p, const char *line)
{
	const char *name = line + 1, *end = strchr(name, ']');

	p->target = NULL;
	p->access = NULL;
	p->trigger = NULL;
	p->seen = 0;
	p->in_daemon = end && (size_t)(end - name) == strlen(DAEMON_SECTION) &&
		       !strncmp(name, DAEMON_SECTION, strlen(DAEMON_SECTION));
	if (p->in_daemon)
		return;
	if (end && !strncmp(name, TARGET_SECTION, strlen(TARGET_SECTION)))
		begin_named(p, name + strlen(TARGET_SECTION), end, SECTION_TARGET);
	else if (end && !strncmp(name, ACCESS_SECTION, strlen(ACCESS_SECTION)))
		begin_named(p, name + strlen(ACCESS_SECTION), end, SECTION_ACCESS);
	else if (end && !strncmp(name, TRIGGER_SECTION, strlen(TRIGGER_SECTION)))
		begin_named(p, name + strlen(TRIGGER_SECTION), end, SECTION_TRIGGER);
	else
		refuse(p, -EINVAL,
		       "unknown section '%.40s': use [daemon], [target GLOB], [access NAME] or [trigger NAME]",
		       line);
}

static char *read_line(char *line, int size, void *data)
{
	struct parser *p = data;
	const char *text;

	if (!fgets(line, size, p->file))
		return NULL;
	p->line++;
	if (!strchr(line, '\n') && !feof(p->file)) {
		refuse(p, -EINVAL, "the line is longer than %d bytes", size - 2);
		return NULL;
	}
	line[strcspn(line, "\r\n")] = 0;
	text = line + strspn(line, " \t");
	if (*text == '[')
		begin_section(p, text);
	return line;
}

static int take_daemon_key(struct parser *p, const char *name, const char *value,
			   char text[static CONFIG_TEXT])
{
	const char *names[CONFIG_KEYS_MAX];
	int i = config_key_find(name);

	if (i < 0) {
		for (size_t k = 0; k < n_config_keys; k++)
			names[k] = config_keys[k].name;
		return config_refuse_key(name, names, n_config_keys, text);
	}
	if (p->is_seen[i]) {
		snprintf(text, CONFIG_TEXT, "'%s' is given twice", name);
		return -EINVAL;
	}
	p->is_seen[i] = true;
	return config_keys[i].take(&config_keys[i], p->config->is_flag[i] ? &p->scratch : p->config,
				   value, text);
}

/* 0 means refused, as the library requires. */
static int on_key(void *data, const char *section, const char *name, const char *value)
{
	struct parser *p = data;
	char text[CONFIG_TEXT];
	int r;

	if (p->error)
		return 0;
	if (p->in_daemon) {
		r = take_daemon_key(p, name, value, text);
	} else if (p->target) {
		r = config_target_take(p->target, &p->seen, name, value, text);
	} else if (p->access) {
		r = config_access_take(p->access, &p->seen, name, value, text);
	} else if (p->trigger) {
		r = config_trigger_take(p->trigger, &p->seen, name, value, text);
	} else {
		snprintf(text, sizeof(text), "'%.40s' is outside a section", name);
		r = -EINVAL;
	}
	if (r < 0)
		refuse(p, r, "%s", text);
	return r == 0;
}

int config_read_file(struct config *config, FILE *file, const char *name, char *ret_text,
		     size_t text_size)
{
	struct parser *p = calloc(1, sizeof(*p));
	int line, r;

	if (!p) {
		fclose(file);
		snprintf(ret_text, text_size, "out of memory");
		return -ENOMEM;
	}
	p->file = file;
	p->config = config;
	line = ini_parse_stream(read_line, p, on_key, p);
	if (ferror(file))
		refuse(p, -EIO, "cannot read the file");
	fclose(file);
	/* A line that the library does not report is neither a section nor a key. */
	if (line > 0 && (!p->error || (unsigned)line < p->error_line)) {
		p->error = -EINVAL;
		p->error_line = (unsigned)line;
		snprintf(p->text, sizeof(p->text), "neither a section nor KEY = VALUE");
	}
	r = p->error;
	if (r < 0)
		snprintf(ret_text, text_size, "%s:%u: %s", name, p->error_line, p->text);
	free(p);
	return r;
}
