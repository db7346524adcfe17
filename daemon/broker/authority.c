/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/authority.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

#include "daemon/plan/detail.h"
#include "lib/base/glob.h"
#include "lib/base/macro.h"
#include "lib/base/share.h"

static bool is_same(const struct namespace_id *a, const struct namespace_id *b)
{
	return a->device == b->device && a->inode == b->inode;
}

static bool ids_contain(const struct id_list *list, uint32_t id)
{
	for (unsigned i = 0; i < list->n; i++)
		if (list->ids[i] == id)
			return true;
	return list->any;
}

static bool ids_are_valid(const struct id_list *list)
{
	return list->n <= ACCESS_IDS_MAX;
}

#define IS_TEXT(field) (memchr((field), 0, sizeof(field)) != NULL)

static bool rule_is_valid(const struct access_rule *rule)
{
	return IS_TEXT(rule->name) && IS_TEXT(rule->users) && IS_TEXT(rule->groups) &&
	       IS_TEXT(rule->target_users) && IS_TEXT(rule->executables) &&
	       IS_TEXT(rule->cgroups) && ids_are_valid(&rule->user_ids) &&
	       ids_are_valid(&rule->group_ids) && ids_are_valid(&rule->target_ids);
}

bool authority_is_valid(const struct authority *rules)
{
	if (rules->n_rules > ACCESS_RULES_MAX || (unsigned)rules->tcp > TCP_NONE)
		return false;
	for (unsigned i = 0; i < rules->n_rules; i++)
		if (!rule_is_valid(&rules->rules[i]))
			return false;
	return true;
}

void authority_renew(struct authority *a, const struct authority *rules)
{
	const struct namespace_id user_ns = a->user_ns, pid_ns = a->pid_ns;

	*a = *rules;
	a->user_ns = user_ns;
	a->pid_ns = pid_ns;
}

void authority_name(const struct authority *a, struct caller *caller, const gid_t *groups,
		    size_t n_groups)
{
	caller->rules = 0;
	for (unsigned i = 0; i < a->n_rules; i++) {
		const struct access_rule *rule = &a->rules[i];
		bool is_named = ids_contain(&rule->user_ids, caller->uid);

		for (size_t k = 0; k < n_groups && !is_named; k++)
			is_named = ids_contain(&rule->group_ids, groups[k]);
		if (is_named)
			caller->rules |= 1u << i;
	}
}

static bool ptrace_is_effective(const struct caller *caller)
{
	return caller->effective >> CAP_SYS_PTRACE & 1;
}

/* As the kernel's ns_capable(): the capability counts in the caller's user namespace and in those
 * below, and whoever made a namespace has every capability in it. */
static bool may_ptrace(const struct caller *caller, const struct target_facts *p)
{
	for (unsigned i = 0; i < p->n_user_ns; i++) {
		if (is_same(&p->user_ns[i], &caller->user_ns))
			return ptrace_is_effective(caller);
		if (i + 1 < p->n_user_ns && is_same(&p->user_ns[i + 1], &caller->user_ns) &&
		    p->creators[i] == caller->uid)
			return true;
	}
	return false;
}

/* Whether the process has a process id where the caller lives. */
static bool sees(const struct caller *caller, const struct target_facts *p)
{
	if (caller->kind != CALLER_PROCESS)
		return true;
	for (unsigned i = 0; i < p->n_pid_ns; i++)
		if (is_same(&p->pid_ns[i], &caller->pid_ns))
			return true;
	return false;
}

/* Whether the caller's capabilities count for the whole host, regardless of which processes it
 * sees. */
static bool has_host_authority(const struct authority *a, const struct caller *caller)
{
	switch (caller->kind) {
	case CALLER_PROCESS:
		return ptrace_is_effective(caller) && is_same(&caller->user_ns, &a->user_ns);
	case CALLER_TCP:
		return caller->uid == 0 && a->tcp == TCP_ROOT;
	case CALLER_CERTIFIED:
	case CALLER_DAEMON:
		return caller->uid == 0;
	default:
		return false;
	}
}

bool authority_is_root(const struct authority *a, const struct caller *caller)
{
	return has_host_authority(a, caller) &&
	       (caller->kind != CALLER_PROCESS || is_same(&caller->pid_ns, &a->pid_ns));
}

uint64_t authority_scope(const struct authority *a, const struct caller *caller)
{
	return caller->kind == CALLER_PROCESS && !is_same(&caller->pid_ns, &a->pid_ns)
		       ? caller->pid_ns.inode
		       : 0;
}

uid_t authority_holder(const struct authority *a, const struct caller *caller)
{
	bool is_unidentified = caller->kind == CALLER_UNKNOWN ||
			       (caller->uid == 0 && !authority_is_root(a, caller));

	return authority_is_root(a, caller) ? 0
	       : is_unidentified            ? SHARE_UNIDENTIFIED
					    : caller->uid;
}

/* The process belongs to the caller's user, and has no more privileges than the caller. */
static bool is_own(const struct authority *a, const struct caller *caller,
		   const struct target_facts *p)
{
	if (p->owner != caller->uid || !p->is_uniform)
		return false;
	if (caller->kind == CALLER_TCP)
		return a->tcp != TCP_NONE;
	return caller->kind != CALLER_PROCESS ||
	       (p->n_user_ns && is_same(&p->user_ns[0], &caller->user_ns) &&
		!(p->permitted & ~caller->permitted));
}

/* Whether one of the globs, which are separated by spaces, matches; "" matches everything. */
static bool globs_match(const char *globs, const char *text)
{
	if (!*globs)
		return true;
	while (*globs) {
		size_t n = strcspn(globs, " ");
		char glob[ACCESS_TEXT];

		snprintf(glob, sizeof(glob), "%.*s", (int)n, globs);
		if (*glob && *text && glob_matches(glob, text))
			return true;
		globs += n + strspn(globs + n, " ");
	}
	return false;
}

static bool rule_matches(const struct access_rule *rule, const struct target_facts *p)
{
	bool is_owner =
		*rule->target_users ? ids_contain(&rule->target_ids, p->owner) : p->owner != 0;

	return is_owner && globs_match(rule->executables, p->executable) &&
	       globs_match(rule->cgroups, p->cgroup);
}

static const struct access_rule *find_rule(const struct authority *a, const struct caller *caller,
					   const struct target_facts *p)
{
	if (caller->kind == CALLER_TCP && a->tcp == TCP_NONE)
		return NULL;
	for (unsigned i = 0; i < a->n_rules; i++)
		if (caller->rules >> i & 1 && rule_matches(&a->rules[i], p))
			return &a->rules[i];
	return NULL;
}

static int deny(const struct authority *a, const struct caller *caller,
		const struct access_rule *rule, char *text, size_t size)
{
	if (caller->kind == CALLER_UNKNOWN)
		snprintf(text, size,
			 "no user has this certificate: root can add it to the file tls-users");
	else if (caller->kind == CALLER_DAEMON)
		snprintf(text, size, "the daemon captures as user %u (captures-user)", caller->uid);
	else if (caller->kind == CALLER_TCP && a->tcp == TCP_NONE)
		snprintf(
			text, size,
			"clients on TCP may not capture here (tcp-access): use the Unix socket of tfprofd");
	else if (rule)
		snprintf(text, size, "[access %s] of the daemon's configuration denies it",
			 rule->name);
	else
		snprintf(text, size, "run as its user or as root");
	return -EACCES;
}

int authority_decide(const struct authority *a, const struct caller *caller,
		     const struct target_facts *p, struct authority_ceiling *ret, char *ret_text,
		     size_t text_size)
{
	const struct access_rule *rule;

	*ret = (struct authority_ceiling){ .no_decrypted = true };
	if (caller->kind == CALLER_UNKNOWN || !sees(caller, p))
		return deny(a, caller, NULL, ret_text, text_size);
	rule = find_rule(a, caller, p);
	/* Root may profile everything; that it reads this, too, has to be configured. */
	if (has_host_authority(a, caller)) {
		ret->no_decrypted = !rule || rule->denies || !rule->allows_decrypted;
		return 0;
	}
	if (rule && rule->denies)
		return deny(a, caller, rule, ret_text, text_size);
	if (!rule && !is_own(a, caller, p) &&
	    !(caller->kind == CALLER_PROCESS && may_ptrace(caller, p)))
		return deny(a, caller, NULL, ret_text, text_size);
	*ret = rule ? authority_lower(&rule->ceiling, &a->ceiling) : a->ceiling;
	if (!(ret->max_overhead > 0))
		ret->max_overhead = OVERHEAD_DEFAULT;
	ret->no_decrypted = !rule || !rule->allows_decrypted;
	return 0;
}

bool authority_may_control(const struct authority_peer *client,
			   const struct authority_peer *beginner)
{
	return client->is_root ||
	       (client->uid == beginner->uid && client->scope == beginner->scope);
}

/* Zero is no limit. */
#define LOWER(a, b) ((a) && (!(b) || (a) < (b)) ? (a) : (b))

struct authority_ceiling authority_lower(const struct authority_ceiling *a,
					 const struct authority_ceiling *b)
{
	return (struct authority_ceiling){
		.max_overhead = a->max_overhead > 0 && (b->max_overhead <= 0 ||
							a->max_overhead < b->max_overhead)
					? a->max_overhead
					: b->max_overhead,
		.max_duration_ns = LOWER(a->max_duration_ns, b->max_duration_ns),
		.max_level = LOWER(a->max_level, b->max_level),
		.no_memory = a->no_memory || b->no_memory,
		.no_decrypted = a->no_decrypted || b->no_decrypted,
	};
}

unsigned authority_kinds(const struct authority_ceiling *ceiling)
{
	unsigned kinds = (1u << KIND_COUNT) - 1;

	if (ceiling->max_level && ceiling->max_level < 3)
		kinds &= ~(1u << KIND_HANDOVER);
	if (ceiling->max_level == 1)
		kinds &= ~(1u << KIND_OPS | 1u << KIND_SWITCHES | 1u << KIND_EXECUTORS |
			   1u << KIND_ITERATORS | 1u << KIND_STACKS);
	if (ceiling->no_memory)
		kinds &= ~(1u << KIND_MEMORY);
	if (ceiling->no_decrypted)
		kinds &= ~(1u << KIND_DECRYPTED);
	return kinds;
}
