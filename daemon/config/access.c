/* SPDX-License-Identifier: Apache-2.0 */
/* Part of keys.h: the sections of a configuration that give users access to processes of others. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/config/keys.h"
#include "lib/base/macro.h"
#include "lib/base/number.h"
#include "lib/base/percent.h"

#define SECOND 1000000000ull

__attribute__((format(printf, 2, 3))) static int refuse(char text[static CONFIG_TEXT],
							const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, CONFIG_TEXT, format, ap);
	va_end(ap);
	return -EINVAL;
}

int config_take_level(const char *value, uint32_t *ret, char text[static CONFIG_TEXT])
{
	uint64_t number;

	if (number_parse(value, 1, 3, &number) < 0)
		return refuse(text, "invalid level '%.40s': use 1, 2 or 3", value);
	*ret = (uint32_t)number;
	return 0;
}

/* Commas and spaces separate words. */
static int take_words(const char *value, char ret[static ACCESS_TEXT], char *text)
{
	size_t n = 0;

	for (const char *c = value; *c; c++) {
		char byte = *c == ',' || *c == '\t' ? ' ' : *c;

		if (byte == ' ' && (n == 0 || ret[n - 1] == ' '))
			continue;
		if (n == ACCESS_TEXT - 1)
			return refuse(text, "the value is longer than %d bytes", ACCESS_TEXT - 1);
		ret[n++] = byte;
	}
	n -= n && ret[n - 1] == ' ';
	ret[n] = 0;
	return n ? 0 : refuse(text, "a value is missing");
}

static int take_allow(struct access_rule *rule, const char *value, char *text)
{
	bool allows;
	int r = config_take_bool(value, &allows, text);

	if (r == 0)
		rule->denies = !allows;
	return r;
}

static int take_memory(struct access_rule *rule, const char *value, char *text)
{
	bool has_memory;
	int r = config_take_bool(value, &has_memory, text);

	if (r == 0)
		rule->ceiling.no_memory = !has_memory;
	return r;
}

static int take_decrypted(struct access_rule *rule, const char *value, char *text)
{
	return config_take_bool(value, &rule->allows_decrypted, text);
}

static int take_max_level(struct access_rule *rule, const char *value, char *text)
{
	return config_take_level(value, &rule->ceiling.max_level, text);
}

static int take_max_overhead(struct access_rule *rule, const char *value, char *text)
{
	if (percent_parse(value, &rule->ceiling.max_overhead) < 0)
		return refuse(
			text,
			"invalid percentage '%.40s': use 1, 0.5 or 20%%; above 0 and at most 100",
			value);
	return 0;
}

static int take_max_duration(struct access_rule *rule, const char *value, char *text)
{
	uint64_t seconds;

	if (number_parse(value, 1, 86400, &seconds) < 0)
		return refuse(text, "invalid number of seconds '%.40s': use 1 to 86400", value);
	rule->ceiling.max_duration_ns = seconds * SECOND;
	return 0;
}

#define WORDS(field)                                                                               \
	static int take_##field(struct access_rule *rule, const char *value, char *text)           \
	{                                                                                          \
		return take_words(value, rule->field, text);                                       \
	}
WORDS(users)
WORDS(groups)
WORDS(target_users)
WORDS(executables)
WORDS(cgroups)

static const struct {
	const char *name;
	int (*take)(struct access_rule *rule, const char *value, char *text);
} keys[] = {
	{ "users", take_users },
	{ "groups", take_groups },
	{ "target-users", take_target_users },
	{ "executables", take_executables },
	{ "cgroups", take_cgroups },
	{ "allow", take_allow },
	{ "max-level", take_max_level },
	{ "max-overhead", take_max_overhead },
	{ "max-duration", take_max_duration },
	{ "memory", take_memory },
	{ "decrypted-requests", take_decrypted },
};

int config_access_take(struct access_rule *rule, unsigned *seen, const char *name,
		       const char *value, char text[static CONFIG_TEXT])
{
	int i = config_section_key(name, keys, ARRAY_SIZE(keys), sizeof(keys[0]), seen, text);

	return i < 0 ? i : keys[i].take(rule, value, text);
}

int config_access_add(struct config *config, const char *name, size_t size,
		      struct access_rule **ret, char text[static CONFIG_TEXT])
{
	struct authority *a = &config->access;
	struct access_rule *rule = &a->rules[a->n_rules];

	if (a->n_rules == ACCESS_RULES_MAX)
		return refuse(text, "there are more than %d sections [access NAME]",
			      ACCESS_RULES_MAX);
	if (size >= sizeof(rule->name))
		return refuse(text, "the section's name is longer than %zu bytes",
			      sizeof(rule->name) - 1);
	for (unsigned i = 0; i < a->n_rules; i++)
		if (strlen(a->rules[i].name) == size && !strncmp(a->rules[i].name, name, size))
			return refuse(text, "there are two sections [access %.*s]", (int)size,
				      name);
	*rule = (struct access_rule){};
	memcpy(rule->name, name, size);
	a->n_rules++;
	*ret = rule;
	return 0;
}

static int find_id(const char *name, bool is_group, uint32_t *ret)
{
	const struct passwd *user = is_group ? NULL : getpwnam(name);
	const struct group *group = is_group ? getgrnam(name) : NULL;
	uint64_t number;

	if (user || group)
		*ret = user ? user->pw_uid : group->gr_gid;
	else if (number_parse(name, 0, UINT32_MAX - 1, &number) == 0)
		*ret = (uint32_t)number;
	else
		return -ENOENT;
	return 0;
}

static int resolve(const char *words, bool is_group, struct id_list *ret, char *text)
{
	*ret = (struct id_list){};
	for (size_t n; *words; words += n + (words[n] == ' ')) {
		char word[ACCESS_TEXT];

		n = strcspn(words, " ");
		snprintf(word, sizeof(word), "%.*s", (int)n, words);
		if (!strcmp(word, "*")) {
			ret->any = true;
			continue;
		}
		if (ret->n == ACCESS_IDS_MAX)
			return refuse(text, "more than %d names in one list", ACCESS_IDS_MAX);
		if (find_id(word, is_group, &ret->ids[ret->n++]) < 0)
			return refuse(text, "unknown %s '%.40s'", is_group ? "group" : "user",
				      word);
	}
	return 0;
}

int config_access_resolve(struct config *config, char text[static CONFIG_TEXT])
{
	struct authority *a = &config->access;
	char reason[CONFIG_TEXT];

	if (find_id(config->captures_user, false, &a->daemon_user) < 0)
		return refuse(text, "captures-user: unknown user '%.40s'", config->captures_user);
	for (unsigned i = 0; i < a->n_rules; i++) {
		struct access_rule *rule = &a->rules[i];
		int r = resolve(rule->users, false, &rule->user_ids, reason);

		if (r == 0)
			r = resolve(rule->groups, true, &rule->group_ids, reason);
		if (r == 0)
			r = resolve(rule->target_users, false, &rule->target_ids, reason);
		if (r == 0 && !*rule->users && !*rule->groups)
			r = refuse(reason, "name users or groups");
		if (r < 0)
			return refuse(text, "[access %s]: %.150s", rule->name, reason);
	}
	return 0;
}
