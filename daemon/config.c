#include "daemon/config.h"

#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/duration.h"
#include "lib/base/glob.h"
#include "lib/base/macro.h"
#include "lib/base/percent.h"

#define REQUESTS_MAX 1000000
#define TARGET_SECTION "target "

struct parser {
	FILE *file;
	struct config *config;
	struct config_target *target; /* whose section is read, NULL: none yet */
	unsigned seen;		      /* keys of the section, by their place in the table */
	unsigned line;
	int error; /* the first one */
	unsigned error_line;
	char text[160];
};

__attribute__((format(printf, 3, 4))) static int refuse(struct parser *p, int error, const char *format, ...)
{
	va_list ap;

	if (!p->error) {
		p->error = error;
		p->error_line = p->line;
		va_start(ap, format);
		vsnprintf(p->text, sizeof(p->text), format, ap);
		va_end(ap);
	}
	return error;
}

static int take_text(struct parser *p, const char *value, char **ret, const char **ret_filter)
{
	if (!*value)
		return refuse(p, -EINVAL, "a value is missing");
	*ret = strdup(value);
	if (!*ret)
		return refuse(p, -ENOMEM, "out of memory");
	*ret_filter = *ret;
	return 0;
}

static int take_path(struct parser *p, const char *value)
{
	return take_text(p, value, &p->target->path, &p->target->filter.path);
}

static int take_model(struct parser *p, const char *value)
{
	return take_text(p, value, &p->target->model, &p->target->filter.model);
}

static int take_slower_than(struct parser *p, const char *value)
{
	if (duration_parse(value, &p->target->filter.slower_than_ns) < 0)
		return refuse(p, -EINVAL, "'%.40s' is no time: write 500ms, 2s, 1.5s or 1m", value);
	return 0;
}

static int take_max_overhead(struct parser *p, const char *value)
{
	if (percent_parse(value, &p->target->max_overhead) < 0)
		return refuse(p, -EINVAL, "'%.40s' is no share above 0 and up to 100: write 1, 0.5 or 20%%", value);
	return 0;
}

static bool parse_number(const char *text, unsigned long max, unsigned long *ret)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*ret = strtoul(text, &end, 10);
	return !*end && !errno && *ret && *ret <= max;
}

static int take_requests_count(struct parser *p, const char *value)
{
	unsigned long number;

	if (!parse_number(value, REQUESTS_MAX, &number))
		return refuse(p, -EINVAL, "'%.40s' is no count of 1 to %d", value, REQUESTS_MAX);
	p->target->filter.count = number;
	return 0;
}

static int take_level(struct parser *p, const char *value)
{
	unsigned long number;

	if (!parse_number(value, 3, &number))
		return refuse(p, -EINVAL, "'%.40s' is no level: 1, 2 or 3", value);
	p->target->level = (unsigned)number;
	return 0;
}

static const struct {
	const char *name;
	int (*take)(struct parser *p, const char *value);
} keys[] = {
	{ "slower-than", take_slower_than },	 { "path", take_path },	  { "model", take_model },
	{ "requests-count", take_requests_count }, { "max-overhead", take_max_overhead }, { "level", take_level },
};

/* The library calls only for keys, keeps few bytes of a section's name, and lets a section without keys pass. */
static void begin_section(struct parser *p, const char *line)
{
	const char *name = line + 1, *end = strchr(name, ']');
	size_t prefix = strlen(TARGET_SECTION);
	struct config_target *t;

	p->target = NULL;
	p->seen = 0;
	if (!end || strncmp(name, TARGET_SECTION, prefix)) {
		refuse(p, -EINVAL, "there is no section '%.40s': write [target GLOB]", line);
		return;
	}
	for (name += prefix; *name == ' '; name++)
		;
	while (end > name && end[-1] == ' ')
		end--;
	if (end == name) {
		refuse(p, -EINVAL, "a target's section names a process: write [target GLOB]");
		return;
	}
	if (p->config->n_targets == CONFIG_TARGETS_MAX) {
		refuse(p, -EINVAL, "there are more than %d sections", CONFIG_TARGETS_MAX);
		return;
	}
	t = &p->config->targets[p->config->n_targets];
	t->pattern = strndup(name, (size_t)(end - name));
	if (!t->pattern) {
		refuse(p, -ENOMEM, "out of memory");
		return;
	}
	p->config->n_targets++;
	p->target = t;
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

/* 0: refused, as the library wants it. */
static int on_key(void *data, const char *section, const char *name, const char *value)
{
	struct parser *p = data;

	if (p->error)
		return 0;
	if (!p->target)
		return refuse(p, -EINVAL, "'%.40s' is outside of a section", name), 0;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(keys[i].name, name))
			continue;
		if (p->seen & 1u << i)
			return refuse(p, -EINVAL, "'%s' is given twice", name), 0;
		p->seen |= 1u << i;
		return keys[i].take(p, value) >= 0;
	}
	return refuse(p, -EINVAL, "there is no key '%.40s'", name), 0;
}

int config_read(const char *path, struct config **ret, char *ret_text, size_t text_size)
{
	struct parser p = { .file = fopen(path, "re") };
	int line = 0;

	if (!p.file) {
		p.error = -errno;
		snprintf(ret_text, text_size, "cannot read %s: %s", path, strerror(errno));
		return p.error;
	}
	p.config = calloc(1, sizeof(*p.config));
	if (!p.config)
		refuse(&p, -ENOMEM, "out of memory");
	else
		line = ini_parse_stream(read_line, &p, on_key, &p);
	if (!p.error && ferror(p.file))
		refuse(&p, -EIO, "it cannot be read");
	fclose(p.file);
	/* What it does not call for is a line that is neither a section nor a key. */
	if (line > 0 && (!p.error || (unsigned)line < p.error_line)) {
		p.error = -EINVAL;
		p.error_line = (unsigned)line;
		snprintf(p.text, sizeof(p.text), "neither [target GLOB] nor KEY = VALUE");
	}
	if (p.error) {
		snprintf(ret_text, text_size, "%s:%u: %s", path, p.error_line, p.text);
		config_free(p.config);
		return p.error;
	}
	*ret = p.config;
	return 0;
}

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

const struct config_target *config_find(const struct config *config, pid_t pid, const char *name)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", pid);
	for (unsigned i = 0; config && i < config->n_targets; i++)
		if (glob_matches(config->targets[i].pattern, name) || glob_matches(config->targets[i].pattern, number))
			return &config->targets[i];
	return NULL;
}
