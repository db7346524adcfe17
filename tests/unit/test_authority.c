/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/authority.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

#include "daemon/plan/detail.h"
#include "lib/base/macro.h"
#include "tests/unit/check.h"

#define ALL_CAPS 0x1ffffffffffull
#define PTRACE (1ull << CAP_SYS_PTRACE)
#define SECOND 1000000000ull

enum { ALICE = 1000, BOB = 1001, OPERATOR = 1002, OPERATORS = 5000, SHIFTED = 100000 };

static const struct namespace_id host_users = { 4, 1 }, host_pids = { 4, 2 }, own_pids = { 4, 3 },
				 other_pids = { 4, 4 }, own_users = { 4, 5 },
				 other_users = { 4, 6 };

static struct authority policy(void)
{
	struct authority a = { .user_ns = host_users, .pid_ns = host_pids };

	a.n_rules = 2;
	a.rules[0] = (struct access_rule){ .name = "never",
					   .user_ids = { .any = true },
					   .executables = "/opt/secret/*",
					   .denies = true };
	a.rules[1] = (struct access_rule){ .name = "ops",
					   .group_ids = { .ids = { OPERATORS }, .n = 1 },
					   .executables = "/usr/bin/* /opt/*",
					   .cgroups = "/serving.slice/*",
					   .ceiling = { .max_level = 1,
							.max_overhead = 2,
							.max_duration_ns = 60 * SECOND,
							.no_memory = true } };
	return a;
}

static struct caller on_host(const struct authority *a, uid_t uid, uint64_t caps, gid_t group)
{
	struct caller c = { .kind = CALLER_PROCESS,
			    .uid = uid,
			    .effective = caps,
			    .permitted = caps,
			    .user_ns = host_users,
			    .pid_ns = host_pids };

	authority_name(a, &c, &group, 1);
	return c;
}

static struct caller in_container(const struct authority *a, uid_t uid, uint64_t caps)
{
	struct caller c = on_host(a, uid, caps, uid);

	c.pid_ns = own_pids;
	return c;
}

static struct caller in_user_namespace(const struct authority *a, uid_t uid, uint64_t caps)
{
	struct caller c = in_container(a, uid, caps);

	c.user_ns = own_users;
	return c;
}

static struct caller by_tcp(const struct authority *a, uid_t uid)
{
	struct caller c = { .kind = CALLER_TCP, .uid = uid };

	authority_name(a, &c, NULL, 0);
	return c;
}

static struct caller by_certificate(const struct authority *a, uid_t uid)
{
	struct caller c = { .kind = CALLER_CERTIFIED, .uid = uid };

	authority_name(a, &c, NULL, 0);
	return c;
}

static struct target_facts process(uid_t owner)
{
	struct target_facts p = { .owner = owner,
				  .is_uniform = true,
				  .permitted = owner ? 0 : ALL_CAPS,
				  .user_ns = { host_users },
				  .n_user_ns = 1,
				  .pid_ns = { host_pids },
				  .n_pid_ns = 1 };

	strcpy(p.executable, "/usr/bin/server");
	strcpy(p.cgroup, "/system.slice/server.service");
	return p;
}

static struct target_facts serving(uid_t owner)
{
	struct target_facts p = process(owner);

	strcpy(p.cgroup, "/serving.slice/server.service");
	return p;
}

/* In a pid namespace below the host's. */
static struct target_facts contained(uid_t owner, struct namespace_id pids)
{
	struct target_facts p = process(owner);

	p.pid_ns[0] = pids;
	p.pid_ns[1] = host_pids;
	p.n_pid_ns = 2;
	p.permitted = 0;
	return p;
}

static struct target_facts shifted(uid_t owner, struct namespace_id pids, struct namespace_id users,
				   uid_t creator)
{
	struct target_facts p = contained(owner, pids);

	p.user_ns[0] = users;
	p.user_ns[1] = host_users;
	p.creators[0] = creator;
	p.n_user_ns = 2;
	return p;
}

static void set_owner(struct target_facts *p)
{
	/* As the kernel reports a process that is not dumpable. */
	p->owner = 0;
	p->is_uniform = false;
}

TEST(who_may_profile_whom)
{
	const struct authority a = policy();
	struct target_facts targets[] = {
		process(0),
		process(ALICE),
		process(BOB),
		process(ALICE), /* is not dumpable */
		process(ALICE), /* has another saved user */
		serving(BOB),
		serving(0),
		contained(0, own_pids),
		contained(0, other_pids),
		contained(ALICE, own_pids),
		contained(ALICE, other_pids),
		shifted(SHIFTED, own_pids, own_users, ALICE),
		shifted(SHIFTED, other_pids, other_users, BOB),
		process(ALICE), /* of a program that nobody may profile */
	};
	const struct {
		const char *name;
		struct caller caller;
		const char *may;
	} rows[] = {
		{ "root", on_host(&a, 0, ALL_CAPS, 0), "11111111111111" },
		/* The processes of root have capabilities that it lacks. */
		{ "root without capabilities", on_host(&a, 0, 0, 0), "00000001100000" },
		{ "alice", on_host(&a, ALICE, 0, ALICE), "01000000011100" },
		{ "alice with CAP_SYS_PTRACE", on_host(&a, ALICE, PTRACE, ALICE),
		  "11111111111111" },
		{ "bob", on_host(&a, BOB, 0, BOB), "00100100000010" },
		{ "an operator", on_host(&a, OPERATOR, 0, OPERATORS), "00000100000000" },
		{ "root of a container", in_container(&a, 0, 0), "00000001000000" },
		{ "root of a container with CAP_SYS_PTRACE", in_container(&a, 0, PTRACE),
		  "00000001010100" },
		{ "alice in a container", in_container(&a, ALICE, 0), "00000000010100" },
		{ "root of a user namespace", in_user_namespace(&a, SHIFTED, ALL_CAPS),
		  "00000000000100" },
		{ "root of a user namespace that is alice's",
		  in_user_namespace(&a, ALICE, ALL_CAPS), "00000000000100" },
		{ "root on TCP", by_tcp(&a, 0), "11111111111111" },
		{ "alice on TCP", by_tcp(&a, ALICE), "01000000011000" },
		{ "a certificate of root's", by_certificate(&a, 0), "11111111111111" },
		{ "a certificate of alice's", by_certificate(&a, ALICE), "01000000011000" },
		{ "a certificate of nobody's",
		  { .kind = CALLER_UNKNOWN, .uid = 0 },
		  "00000000000000" },
	};
	unsigned wrong = 0, n = 0;

	set_owner(&targets[3]);
	targets[4].is_uniform = false;
	strcpy(targets[13].executable, "/opt/secret/server");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t k = 0; k < ARRAY_SIZE(targets); k++) {
			struct authority_ceiling ceiling;
			char text[200] = "";
			int r = authority_decide(&a, &rows[i].caller, &targets[k], &ceiling, text,
						 sizeof(text));

			n++;
			if (r == (rows[i].may[k] == '1' ? 0 : -EACCES) && (r == 0) == !*text)
				continue;
			wrong++;
			printf("%s, target %zu: %d, '%s'\n", rows[i].name, k, r, text);
		}
	printf("%u cells\n", n);
	CHECK_EQ(wrong, 0);
}

static int decide(const struct authority *a, struct caller caller, struct target_facts target,
		  struct authority_ceiling *ret)
{
	char text[200];

	return authority_decide(a, &caller, &target, ret, text, sizeof(text));
}

TEST(a_ceiling_is_the_lower_one_of_the_section_and_of_the_daemon_and_none_for_root)
{
	struct authority a = policy();
	struct authority_ceiling c;

	a.ceiling = (struct authority_ceiling){ .max_level = 2, .max_overhead = 1.5 };
	CHECK_EQ(decide(&a, on_host(&a, OPERATOR, 0, OPERATORS), serving(BOB), &c), 0);
	CHECK_EQ(c.max_level, 1);
	CHECK(c.max_overhead == 1.5);
	CHECK_EQ(c.max_duration_ns, 60 * SECOND);
	CHECK(c.no_memory);
	CHECK_EQ(decide(&a, on_host(&a, BOB, 0, BOB), process(BOB), &c), 0);
	CHECK_EQ(c.max_level, 2);
	CHECK(c.max_overhead == 1.5);
	CHECK(!c.no_memory && !c.max_duration_ns);
	CHECK_EQ(decide(&a, on_host(&a, 0, ALL_CAPS, 0), serving(BOB), &c), 0);
	CHECK(!c.max_level && c.max_overhead == 0 && !c.no_memory);
	/* Everyone can become root of a user namespace. */
	CHECK_EQ(decide(&a, in_user_namespace(&a, ALICE, ALL_CAPS),
			shifted(SHIFTED, own_pids, own_users, ALICE), &c),
		 0);
	CHECK_EQ(c.max_level, 2);
}

TEST(what_a_library_decrypts_is_read_only_where_a_section_allows_it)
{
	struct authority a = policy();
	struct authority_ceiling c;

	CHECK_EQ(decide(&a, on_host(&a, OPERATOR, 0, OPERATORS), serving(BOB), &c), 0);
	CHECK(c.no_decrypted && !(authority_kinds(&c) & 1u << KIND_DECRYPTED));
	CHECK_EQ(decide(&a, on_host(&a, BOB, 0, BOB), process(BOB), &c), 0);
	CHECK(c.no_decrypted);
	/* Also for root. */
	CHECK_EQ(decide(&a, on_host(&a, 0, ALL_CAPS, 0), serving(BOB), &c), 0);
	CHECK(c.no_decrypted && !(authority_kinds(&c) & 1u << KIND_DECRYPTED));
	a.rules[1].allows_decrypted = true;
	CHECK_EQ(decide(&a, on_host(&a, OPERATOR, 0, OPERATORS), serving(BOB), &c), 0);
	CHECK(!c.no_decrypted && authority_kinds(&c) & 1u << KIND_DECRYPTED);
	/* The section is not about these. */
	CHECK_EQ(decide(&a, on_host(&a, BOB, 0, BOB), process(BOB), &c), 0);
	CHECK(c.no_decrypted);
	CHECK_EQ(decide(&a, on_host(&a, 0, ALL_CAPS, 0), serving(BOB), &c), 0);
	CHECK(c.no_decrypted);
	a.rules[1].user_ids = (struct id_list){ .ids = { 0 }, .n = 1 };
	CHECK_EQ(decide(&a, on_host(&a, 0, ALL_CAPS, 0), serving(BOB), &c), 0);
	CHECK(!c.no_decrypted && !c.max_level && authority_kinds(&c) & 1u << KIND_DECRYPTED);
	CHECK_EQ(decide(&a, on_host(&a, 0, ALL_CAPS, 0), process(BOB), &c), 0);
	CHECK(c.no_decrypted);
	a.rules[1].denies = true;
	CHECK_EQ(decide(&a, on_host(&a, 0, ALL_CAPS, 0), serving(BOB), &c), 0);
	CHECK(c.no_decrypted);
}

TEST(the_overhead_has_a_default_that_the_section_or_the_daemon_replaces)
{
	struct authority a = policy();
	struct authority_ceiling c;

	for (unsigned i = 0; i < ARRAY_SIZE(a.rules); i++)
		a.rules[i].ceiling.max_overhead = 0;
	CHECK_EQ(decide(&a, on_host(&a, OPERATOR, 0, OPERATORS), serving(BOB), &c), 0);
	CHECK(c.max_overhead == OVERHEAD_DEFAULT);
	CHECK_EQ(decide(&a, on_host(&a, BOB, 0, BOB), process(BOB), &c), 0);
	CHECK(c.max_overhead == OVERHEAD_DEFAULT);
	CHECK_EQ(decide(&a, on_host(&a, 0, ALL_CAPS, 0), serving(BOB), &c), 0);
	CHECK(c.max_overhead == 0);
	a.ceiling.max_overhead = 100;
	CHECK_EQ(decide(&a, on_host(&a, BOB, 0, BOB), process(BOB), &c), 0);
	CHECK(c.max_overhead == 100);
	a.ceiling.max_overhead = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(a.rules); i++)
		a.rules[i].ceiling.max_overhead = 20;
	CHECK_EQ(decide(&a, on_host(&a, OPERATOR, 0, OPERATORS), serving(BOB), &c), 0);
	CHECK(c.max_overhead == 20);
}

TEST(clients_on_TCP_get_what_is_configured_for_them)
{
	struct authority_ceiling c;
	struct authority a = policy();

	a.tcp = TCP_USER;
	CHECK_EQ(decide(&a, by_tcp(&a, 0), process(ALICE), &c), -EACCES);
	CHECK_EQ(decide(&a, by_tcp(&a, 0), process(0), &c), 0);
	CHECK_EQ(decide(&a, by_tcp(&a, ALICE), process(ALICE), &c), 0);
	a.tcp = TCP_NONE;
	a.rules[1].user_ids.any = true;
	CHECK_EQ(decide(&a, by_tcp(&a, 0), process(0), &c), -EACCES);
	CHECK_EQ(decide(&a, by_tcp(&a, ALICE), process(ALICE), &c), -EACCES);
	CHECK_EQ(decide(&a, by_tcp(&a, ALICE), serving(BOB), &c), -EACCES);
	CHECK_EQ(decide(&a, on_host(&a, ALICE, 0, ALICE), process(ALICE), &c), 0);
}

TEST(the_daemon_captures_as_the_configured_user)
{
	struct authority a = policy();
	struct authority_ceiling c;
	struct caller daemon = { .kind = CALLER_DAEMON, .uid = ALICE };

	CHECK_EQ(decide(&a, daemon, process(ALICE), &c), 0);
	CHECK_EQ(decide(&a, daemon, process(BOB), &c), -EACCES);
	daemon.uid = 0;
	CHECK_EQ(decide(&a, daemon, process(BOB), &c), 0);
}

TEST(a_section_without_target_users_is_not_about_the_processes_of_root)
{
	struct authority a = policy();
	struct authority_ceiling c;
	struct caller operator= on_host(&a, OPERATOR, 0, OPERATORS);

	CHECK_EQ(decide(&a, operator, serving(0), &c), -EACCES);
	a.rules[1].target_ids.any = true;
	strcpy(a.rules[1].target_users, "*");
	CHECK_EQ(decide(&a, operator, serving(0), &c), 0);
}

TEST(only_the_same_person_and_root_control_a_capture)
{
	const struct authority_peer root = { .uid = 0, .is_root = true }, alice = { .uid = ALICE },
				    bob = { .uid = BOB },
				    contained_alice = { .uid = ALICE, .scope = 7 },
				    contained_root = { .uid = 0, .scope = 7 };

	CHECK(authority_may_control(&root, &alice));
	CHECK(authority_may_control(&alice, &alice));
	CHECK(!authority_may_control(&alice, &root));
	CHECK(!authority_may_control(&alice, &bob));
	CHECK(!authority_may_control(&contained_alice, &alice));
	CHECK(!authority_may_control(&contained_root, &root));
	CHECK(!authority_may_control(&contained_root, &alice));
}

TEST(who_is_root_and_who_lives_in_a_container)
{
	const struct authority a = policy();
	const struct caller root = on_host(&a, 0, ALL_CAPS, 0), weak = on_host(&a, 0, 0, 0),
			    contained_root = in_container(&a, 0, PTRACE), tcp = by_tcp(&a, 0);

	CHECK(authority_is_root(&a, &root) && authority_is_root(&a, &tcp));
	CHECK(!authority_is_root(&a, &weak) && !authority_is_root(&a, &contained_root));
	CHECK_EQ(authority_scope(&a, &root), 0);
	CHECK_EQ(authority_scope(&a, &tcp), 0);
	CHECK_EQ(authority_scope(&a, &contained_root), own_pids.inode);
}

TEST(a_ceiling_leaves_out_kinds_of_probes)
{
	const struct authority_ceiling none = {}, low = { .max_level = 1, .no_memory = true };

	CHECK_EQ(authority_kinds(&none), (1u << KIND_COUNT) - 1);
	CHECK(!(authority_kinds(&low) &
		(1u << KIND_OPS | 1u << KIND_SWITCHES | 1u << KIND_MEMORY)));
	CHECK(authority_kinds(&low) & 1u << KIND_RUNS &&
	      authority_kinds(&low) & 1u << KIND_SOCKETS);
}

TEST(rules_that_another_process_sent_are_checked_before_they_are_used)
{
	const struct authority good = policy();
	struct authority a = good;

	CHECK(authority_is_valid(&a));
	a.n_rules = ACCESS_RULES_MAX + 1;
	CHECK(!authority_is_valid(&a));
	a = good;
	a.rules[1].group_ids.n = ACCESS_IDS_MAX + 1;
	CHECK(!authority_is_valid(&a));
	a = good;
	memset(a.rules[0].executables, 'a', sizeof(a.rules[0].executables));
	CHECK(!authority_is_valid(&a));
	a = good;
	memset(&a.tcp, 0xff, sizeof(a.tcp));
	CHECK(!authority_is_valid(&a));
	/* What is behind the last rule does not count. */
	a = good;
	memset(&a.rules[2], 0xff, sizeof(a.rules[2]));
	CHECK(authority_is_valid(&a));
}

TEST(other_rules_leave_the_namespaces_of_the_broker_as_they_are)
{
	struct authority a = policy(),
			 rules = { .n_rules = 1, .tcp = TCP_NONE, .daemon_user = ALICE };

	authority_renew(&a, &rules);
	CHECK_EQ(a.n_rules, 1);
	CHECK_EQ(a.tcp, TCP_NONE);
	CHECK_EQ(a.daemon_user, ALICE);
	CHECK(!memcmp(&a.user_ns, &host_users, sizeof(host_users)));
	CHECK(!memcmp(&a.pid_ns, &host_pids, sizeof(host_pids)));
}

CHECK_MAIN()
