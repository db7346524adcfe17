/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may profile whom, and how much. The rules are here and nowhere else; docs/security.md has
 * them as a table. The functions are pure: identity.h and process.h read the facts from the kernel,
 * and the broker decides for each process of a capture. The front asks the broker.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ACCESS_RULES_MAX 32
#define ACCESS_TEXT 192
#define ACCESS_IDS_MAX 16
/* As many as the kernel nests. */
#define NAMESPACES_MAX 33

/* Of everyone but root, where neither the section nor the daemon has one: percent. */
#define OVERHEAD_DEFAULT 5

/* How much may be captured; a zero is no limit. */
struct authority_ceiling {
	double max_overhead; /* percent; 100: no limit */
	uint64_t max_duration_ns;
	uint32_t max_level;
	uint32_t no_memory; /* allocations are not captured */
	/* What a library decrypts is not read: for everyone, unless a section allows it. */
	uint32_t no_decrypted;
};

struct id_list {
	uint32_t ids[ACCESS_IDS_MAX];
	unsigned n;
	bool any; /* "*" */
};

/* A section [access NAME]: what some users may have of processes that are not their own. The first
 * section that matches user and process decides. */
struct access_rule {
	char name[32];
	/* As configured: words separated by spaces; "": none. */
	char users[ACCESS_TEXT], groups[ACCESS_TEXT], target_users[ACCESS_TEXT];
	/* The same as numbers. */
	struct id_list user_ids, group_ids, target_ids;
	/* Globs, separated by spaces, of the executable's path and of the path in the cgroup tree;
	 * "": any. */
	char executables[ACCESS_TEXT], cgroups[ACCESS_TEXT];
	bool denies;
	bool allows_decrypted;
	struct authority_ceiling ceiling;
};

/* What the user behind a loopback TCP connection may have: the kernel reports the user of such a
 * client and nothing else. */
enum tcp_access {
	TCP_ROOT, /* as a process of the host: uid 0 may profile every process */
	TCP_USER, /* its own processes; uid 0 likewise */
	TCP_NONE,
};

struct namespace_id {
	uint64_t device, inode;
};

/* What root has configured, and the broker's own namespaces. */
struct authority {
	struct access_rule rules[ACCESS_RULES_MAX];
	unsigned n_rules;
	enum tcp_access tcp;
	/* For everyone but root. */
	struct authority_ceiling ceiling;
	/* The user as whom the daemon captures on its own. */
	uid_t daemon_user;
	struct namespace_id user_ns, pid_ns;
};

enum caller_kind {
	CALLER_UNKNOWN,   /* a client with a certificate that no user has (yet) */
	CALLER_PROCESS,   /* of this host, at a Unix socket: the kernel reports the process */
	CALLER_TCP,       /* of this host: the kernel reports the user */
	CALLER_CERTIFIED, /* its certificate belongs to the user */
	CALLER_DAEMON,    /* root configured the daemon to capture on its own */
};

struct caller {
	enum caller_kind kind;
	uid_t uid;
	/* CALLER_PROCESS, when it connected: its sets of capabilities and its namespaces. */
	uint64_t effective, permitted;
	struct namespace_id user_ns, pid_ns;
	uint32_t rules; /* a bit for each rule that names the caller */
};

/* A process that is to be profiled. Its namespaces are followed by their ancestors, up to the
 * broker's own. */
struct target_facts {
	uid_t owner; /* root if it is not dumpable */
	/* Its real, effective and saved user is the owner. */
	bool is_uniform;
	uint64_t permitted; /* capabilities */
	struct namespace_id user_ns[NAMESPACES_MAX], pid_ns[NAMESPACES_MAX];
	uid_t creators[NAMESPACES_MAX]; /* of the user namespaces */
	unsigned n_user_ns, n_pid_ns;
	char executable[512], cgroup[512]; /* "": unknown */
};

/* Whether what another process sent can be used. */
bool authority_is_valid(const struct authority *rules);
/* Takes over what root has configured now; the namespaces stay. */
void authority_renew(struct authority *a, const struct authority *rules);

/* Completes the caller by the rules that name it. */
void authority_name(const struct authority *a, struct caller *caller, const gid_t *groups,
		    size_t n_groups);

/*
 * Whether the caller may profile the process: 0, with what it may have of it; -EACCES, with a
 * sentence without its period.
 */
int authority_decide(const struct authority *a, const struct caller *caller,
		     const struct target_facts *process, struct authority_ceiling *ret,
		     char *ret_text, size_t text_size);

/* Whether the caller may profile every process of the host. */
bool authority_is_root(const struct authority *a, const struct caller *caller);
/* Callers with the same user and scope are the same person: 0, or the container's number of a
 * caller in a container, whose users are not those of the host. */
uint64_t authority_scope(const struct authority *a, const struct caller *caller);

/* Whose share the caller has (lib/base/share.h): root's only for root, and one for all of whom no
 * user is known. */
uid_t authority_holder(const struct authority *a, const struct caller *caller);

/* A client as the front knows it. */
struct authority_peer {
	uid_t uid; /* (uid_t)-1: nobody */
	bool is_root;
	uint64_t scope;
	uid_t holder; /* whose share it has of what users hold */
};

/* Whether the client may see and end what another one has started: a capture, or the recorder. */
bool authority_may_control(const struct authority_peer *client,
			   const struct authority_peer *beginner);
/* The lower limits of both. */
struct authority_ceiling authority_lower(const struct authority_ceiling *a,
					 const struct authority_ceiling *b);
/* Bits of enum probe_kind that a capture may attach under this ceiling. */
unsigned authority_kinds(const struct authority_ceiling *ceiling);
