/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's configuration: its file and its flags. */
#include "daemon/config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/macro.h"
#include "tests/unit/check.h"

static char error[512], path[64];

static void write_file(const char *text)
{
	FILE *file;

	strcpy(path, "/tmp/tfprofd-config-XXXXXX");
	file = fdopen(mkstemp(path), "w");
	fputs(text, file);
	fclose(file);
}

#define FLAGS(...)                                                                                 \
	(char *[])                                                                                 \
	{                                                                                          \
		"tfprofd", __VA_ARGS__, NULL                                                       \
	}

/* The result of flags alone. */
static int read_flags(char *argv[], struct config **ret)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	*ret = NULL;
	*error = 0;
	return config_new(argc, argv, ret, error, sizeof(error));
}

/* The result of a file with this text; *ret is NULL on failure. */
static int read_text(const char *text, struct config **ret)
{
	int r;

	write_file(text);
	r = read_flags(FLAGS("--config", path), ret);
	unlink(path);
	return r;
}

static void expect_refused(const char *text, const char *message)
{
	struct config *config;
	char whole[600];

	CHECK_EQ(read_text(text, &config), -EINVAL);
	snprintf(whole, sizeof(whole), "%s:%s", path, message);
	CHECK_STR(error, whole);
	CHECK(!config);
	config_free(config);
}

static void expect_flag_refused(char *argv[], const char *message)
{
	struct config *config;

	CHECK_EQ(read_flags(argv, &config), -EINVAL);
	CHECK_STR(error, message);
	config_free(config);
}

static void check_daemon_keys(const struct config *c)
{
	CHECK_STR(c->socket, "/a/s");
	CHECK_STR(c->listen.host, "127.0.0.2");
	CHECK_EQ(c->listen.port, 81);
	CHECK_EQ(c->target_ports.first, 2000);
	CHECK_EQ(c->target_ports.last, 2001);
	CHECK_STR(c->tls_listen.host, "0.0.0.0");
	CHECK_EQ(c->tls_listen.port, 443);
	CHECK_STR(c->tls_certificate, "/c");
	CHECK_STR(c->tls_key, "/k");
	CHECK_STR(c->tls_client_ca, "/ca");
	CHECK_STR(c->tls_revoked, "/crl");
	CHECK_STR(c->tls_users, "/u");
	CHECK_EQ(c->access.tcp, TCP_USER);
	CHECK_EQ(c->access.ceiling.max_level, 2);
	CHECK(c->access.ceiling.max_overhead == 5);
	CHECK(c->access.ceiling.no_memory && c->recorder_clients);
	CHECK_EQ(c->access.daemon_user, 12345);
	CHECK_STR(c->metrics.address.host, "127.0.0.1");
	CHECK_EQ(c->metrics.address.port, 90);
	CHECK_STR(c->state, "/st");
	CHECK(c->perf_event_uprobes && c->lifecycle && c->verbose);
	CHECK_EQ(c->max_duration_ns, 7000000000);
	CHECK_EQ(c->max_captures, 3);
	CHECK_EQ(c->max_captures_per_user, 2);
	CHECK_STR(c->metrics_hosts, "a,b");
	CHECK_EQ(c->max_connections, 100);
	CHECK_EQ(c->max_connections_per_user, 10);
	CHECK_EQ(c->max_targets_per_user, 20);
	CHECK_EQ(c->ring_bytes_per_user, 64 << 20);
	CHECK_EQ(c->keep_programs_ns, 5000000000);
	CHECK_EQ(c->recorder.level, 1);
	CHECK_EQ(c->recorder.last_ns, 60000000000);
	CHECK_EQ(c->recorder.bytes, 5 << 20);
	CHECK(c->recorder.max_overhead == 0.5);
}

TEST(every_key_of_the_daemon_can_be_given_in_the_file_and_as_a_flag)
{
	struct config *config;

	CHECK_EQ(
		read_text(
			"[daemon]\nsocket = /a/s\nlisten = 127.0.0.2:81\ntarget-ports = 2000-2001\ntls-listen = 0.0.0.0:443\n"
			"tls-cert = /c\ntls-key = /k\ntls-client-ca = /ca\ntls-crl = /crl\ntls-users = /u\n"
			"tcp-access = user\nmax-level = 2\nmax-overhead = 5\nmemory = no\nrecorder-clients = yes\ncaptures-user = 12345\n"
			"metrics-listen = 127.0.0.1:90\nstate-dir = /st\n"
			"probe-links = perf-event\nmax-duration = 7\nmax-captures = 3\nmax-captures-per-user = 2\nrecorder = 1\n"
			"metrics-hosts = a,b\nmax-connections = 100\nmax-connections-per-user = 10\nmax-targets-per-user = 20\n"
			"ring-memory-per-user = 64\nkeep-programs = 5s\n"
			"recorder-last = 1m\nrecorder-memory = 5\nrecorder-overhead = 0.5\nlifecycle = yes\nverbose = yes\n",
			&config),
		0);
	if (config)
		check_daemon_keys(config);
	config_free(config);
	CHECK_EQ(read_flags(FLAGS("--socket", "/a/s", "--listen", "127.0.0.2:81", "--target-ports",
				  "2000-2001", "--tls-listen", "0.0.0.0:443", "--tls-cert", "/c",
				  "--tls-key", "/k", "--tls-client-ca", "/ca", "--tls-crl", "/crl",
				  "--tls-users", "/u", "--tcp-access", "user", "--max-level", "2",
				  "--max-overhead", "5", "--memory=no", "--recorder-clients",
				  "--captures-user", "12345", "--metrics-listen", "127.0.0.1:90",
				  "--state-dir", "/st", "--probe-links", "perf-event",
				  "--max-duration", "7", "--max-captures", "3",
				  "--max-captures-per-user", "2", "--metrics-hosts", "a,b",
				  "--max-connections", "100", "--max-connections-per-user", "10",
				  "--max-targets-per-user", "20", "--ring-memory-per-user", "64",
				  "--keep-programs", "5s", "--recorder", "1", "--recorder-last",
				  "1m", "--recorder-memory", "5", "--recorder-overhead", "0.5",
				  "--lifecycle", "--verbose"),
			    &config),
		 0);
	if (config)
		check_daemon_keys(config);
	config_free(config);
}

TEST(flags_take_precedence_over_the_file_also_for_targets)
{
	struct config *config;

	write_file("[daemon]\nmax-captures = 3\nmax-duration = 9\n[target a*]\nlevel = 1\n");
	CHECK_EQ(read_flags(FLAGS("--max-captures", "5", "--config", path, "--target",
				  "ab:c:level=2", "--target", "ab:c:requests-count=8"),
			    &config),
		 0);
	if (config) {
		CHECK_EQ(config->max_captures, 5);
		CHECK_EQ(config->max_duration_ns, 9000000000);
		CHECK_EQ(config_find(config, 1, "ab:c")->level, 2);
		CHECK_EQ(config_find(config, 1, "ab:c")->filter.count, 8);
		CHECK_EQ(config_find(config, 1, "abc")->level, 1);
		CHECK_EQ(config->n_targets, 2);
	}
	config_free(config);
	unlink(path);
}

static int n_restarts;
static char restarted[40];

static void note_restart(const char *name, void *data)
{
	n_restarts++;
	snprintf(restarted, sizeof(restarted), "%s", name);
}

TEST(a_reload_applies_what_can_change_and_names_what_cannot)
{
	struct config *config, *again = NULL;
	char *flags[] = { "tfprofd", "--config", path, "--max-captures", "5", NULL };
	FILE *file;

	write_file("[daemon]\nlisten = 127.0.0.1:81\nmax-duration = 9\n");
	CHECK_EQ(read_flags(flags, &config), 0);
	file = fopen(path, "w");
	fputs("[daemon]\nlisten = 127.0.0.1:82\nmax-duration = 10\nmax-captures = 1\n[target x]\n",
	      file);
	fclose(file);
	CHECK_EQ(config_renew(config, 5, flags, open(path, O_RDONLY), note_restart, NULL, &again,
			      error, sizeof(error)),
		 0);
	CHECK_EQ(n_restarts, 1);
	CHECK_STR(restarted, "listen");
	CHECK_EQ(again->listen.port, 81);
	CHECK_EQ(again->max_duration_ns, 10000000000);
	CHECK_EQ(again->max_captures, 5);
	CHECK_EQ(again->n_targets, 1);
	config_free(again);
	file = fopen(path, "w");
	fputs("[daemon]\nmax-duration = 0\n", file);
	fclose(file);
	CHECK_EQ(config_renew(config, 5, flags, open(path, O_RDONLY), note_restart, NULL, &again,
			      error, sizeof(error)),
		 -EINVAL);
	config_free(config);
	unlink(path);
}

TEST(a_reload_applies_who_may_profile_whom)
{
	struct config *config, *again = NULL;
	char *flags[] = { "tfprofd", "--config", path, "--tcp-access", "user", NULL };
	FILE *file;

	write_file("[access a]\nusers = root\n");
	CHECK_EQ(read_flags(flags, &config), 0);
	n_restarts = 0;
	file = fopen(path, "w");
	fputs("[daemon]\ntcp-access = no\nmax-level = 1\nmemory = no\ncaptures-user = 4711\n"
	      "[access b]\ngroups = 12\n[access a]\nusers = root\n",
	      file);
	fclose(file);
	CHECK_EQ(config_renew(config, 5, flags, open(path, O_RDONLY), note_restart, NULL, &again,
			      error, sizeof(error)),
		 0);
	CHECK_EQ(config_resolve(again, error, sizeof(error)), 0);
	CHECK_EQ(n_restarts, 0);
	CHECK_EQ(again->access.n_rules, 2);
	CHECK_EQ(again->access.rules[0].group_ids.ids[0], 12);
	CHECK_EQ(again->access.rules[1].user_ids.n, 1);
	CHECK_EQ(again->access.tcp, TCP_USER);
	CHECK_EQ(again->access.ceiling.max_level, 1);
	CHECK(again->access.ceiling.no_memory);
	CHECK_EQ(again->access.daemon_user, 4711);
	config_free(again);
	file = fopen(path, "w");
	fputs("[access a]\nusers = nobody-at-all\n", file);
	fclose(file);
	CHECK_EQ(config_renew(config, 5, flags, open(path, O_RDONLY), note_restart, NULL, &again,
			      error, sizeof(error)),
		 0);
	CHECK_EQ(config_resolve(again, error, sizeof(error)), -EINVAL);
	CHECK(strstr(error, ": [access a]: unknown user 'nobody-at-all'"));
	config_free(again);
	config_free(config);
	unlink(path);
}

TEST(sections_of_access_are_read_in_order_and_their_names_become_numbers)
{
	const struct access_rule *rule;
	struct config *config;

	CHECK_EQ(
		read_text(
			"[access first]\nusers = root, 4711\ntarget-users = *\n"
			"executables = /usr/bin/a*  /opt/*\nallow = no\n"
			"[access second one]\ngroups = root\ncgroups = /serving/*\nmax-level = 1\ndecrypted-requests = yes\n"
			"max-overhead = 2%\nmax-duration = 60\nmemory = no\n",
			&config),
		0);
	if (!config)
		return;
	CHECK_EQ(config->access.n_rules, 2);
	rule = &config->access.rules[0];
	CHECK_STR(rule->name, "first");
	CHECK_STR(rule->users, "root 4711");
	CHECK_EQ(rule->user_ids.n, 2);
	CHECK_EQ(rule->user_ids.ids[0], 0);
	CHECK_EQ(rule->user_ids.ids[1], 4711);
	CHECK(rule->target_ids.any && rule->denies);
	CHECK_STR(rule->executables, "/usr/bin/a* /opt/*");
	CHECK(!rule->allows_decrypted);
	rule = &config->access.rules[1];
	CHECK(rule->allows_decrypted);
	CHECK_STR(rule->name, "second one");
	CHECK_EQ(rule->group_ids.n, 1);
	CHECK_EQ(rule->ceiling.max_level, 1);
	CHECK(rule->ceiling.max_overhead == 2 && rule->ceiling.no_memory && !rule->denies);
	CHECK_EQ(rule->ceiling.max_duration_ns, 60000000000);
	config_free(config);
}

TEST(sections_of_access_that_make_no_sense_are_refused)
{
	static const struct {
		const char *text, *message;
	} rows[] = {
		{ "[access]\nusers = root\n", ":1: unknown section '[access]'" },
		{ "[access ]\nusers = root\n", ":1: the section has no name: use [access NAME]" },
		{ "[access a]\nuser = root\n", ":2: unknown key 'user' (did you mean 'users'?)" },
		{ "[access a]\nusers = root\nusers = root\n", ":3: 'users' is given twice" },
		{ "[access a]\nusers = root\n[access a]\n",
		  ":3: there are two sections [access a]" },
		{ "[access a]\nmax-level = 4\n", ":2: invalid level '4': use 1, 2 or 3" },
		{ "[access a]\nusers = root nobody-at-all\n",
		  "[access a]: unknown user 'nobody-at-all'" },
		{ "[access a]\ntarget-users = root\n", "[access a]: name users or groups" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct config *config;

		CHECK_EQ(read_text(rows[i].text, &config), -EINVAL);
		CHECK(strstr(error, rows[i].message));
		config_free(config);
	}
}

TEST(flags_that_make_no_sense_are_refused)
{
	expect_flag_refused(FLAGS("--max-captures", "17"),
			    "--max-captures: invalid number of captures '17': use 1 to 16");
	expect_flag_refused(
		FLAGS("--listen", "10.0.0.1:80"),
		"--listen: '10.0.0.1:80' is not a loopback address: any other address would admit every host");
	expect_flag_refused(FLAGS("--tls-listen", "127.0.0.1:80"),
			    "tls-listen requires tls-cert and tls-key");
	expect_flag_refused(FLAGS("--tls-cert", "/c"),
			    "tls-cert, tls-key and tls-client-ca require tls-listen");
	expect_flag_refused(
		FLAGS("--tls-listen", "10.0.0.1:80", "--tls-cert", "/c", "--tls-key", "/k"),
		"tls-listen on an address other than loopback requires tls-client-ca");
	expect_flag_refused(
		FLAGS("--metrics-listen", "10.0.0.1:80"),
		"--metrics-listen: '10.0.0.1:80' is not a loopback address: any other address would admit every host");
	expect_flag_refused(
		FLAGS("--metrics-listen", "unix:relative"),
		"--metrics-listen: invalid socket 'unix:relative': use unix:/PATH, with a path of at most 107 bytes");
	expect_flag_refused(FLAGS("--target", "level=1"),
			    "invalid --target 'level=1': use GLOB:KEY=VALUE");
	expect_flag_refused(FLAGS("--target", "a:levl=1"),
			    "--target a:levl=1: unknown key 'levl' (did you mean 'level'?)");
	expect_flag_refused(FLAGS("--captures-user", "no such user"),
			    "captures-user: unknown user 'no such user'");
	expect_flag_refused(FLAGS("--tcp-access", "yes"),
			    "--tcp-access: invalid value 'yes': use root, user or no");
	expect_flag_refused(
		FLAGS("--tls-listen", "10.0.0.1:80", "--tls-cert", "/c", "--tls-key", "/k",
		      "--tls-client-ca", "/ca"),
		"tls-client-ca and tls-users must be given together: tls-users is the file of the certificates' users");
	expect_flag_refused(FLAGS("--verbose=perhaps"),
			    "--verbose: invalid value 'perhaps': use yes or no");
	expect_flag_refused(FLAGS("extra"), "unexpected argument 'extra' (see tfprofd --help)");
	expect_flag_refused(
		FLAGS("--lisen", "no"),
		"unknown option '--lisen'; did you mean '--listen'? (see tfprofd --help)");
}

TEST(every_key_of_a_target_is_read)
{
	struct config *config;
	const struct config_target *t;

	CHECK_EQ(
		read_text(
			"# comment\n\n[target serving*]\nslower-than = 20ms\npath=/v1/*  ; a comment\nmodel = a b\n"
			"requests-count = 7\nmax-overhead = 2.5%\nlevel = 1\ninput-stages = yes\n",
			&config),
		0);
	t = config_find(config, 12, "serving_main");
	CHECK(t);
	if (t) {
		CHECK_EQ(t->filter.slower_than_ns, 20000000);
		CHECK_STR(t->filter.path, "/v1/*");
		CHECK_STR(t->filter.model, "a b");
		CHECK_EQ(t->filter.count, 7);
		CHECK(t->max_overhead == 2.5);
		CHECK_EQ(t->level, 1);
		CHECK(t->input_stages);
	}
	config_free(config);
}

TEST(the_first_section_that_matches_a_process_applies)
{
	struct config *config;

	CHECK_EQ(read_text(
			 "[target 77]\nlevel = 1\n[target  a?c ]\nlevel = 2\n[target *]\nlevel = 3",
			 &config),
		 0);
	CHECK_EQ(config_find(config, 77, "abc")->level, 1);
	CHECK_EQ(config_find(config, 78, "abc")->level, 2);
	CHECK_EQ(config_find(config, 77777, "ac")->level, 3);
	config_free(config);
	CHECK_EQ(read_text("[target x]\n", &config), 0);
	CHECK(!config_find(config, 1, "y"));
	config_free(config);
}

TEST(an_empty_file_is_a_configuration)
{
	struct config *config;

	CHECK_EQ(read_text("", &config), 0);
	CHECK(config && !config->n_targets);
	config_free(config);
}

TEST(an_error_in_the_file_is_reported_with_its_line)
{
	char line[400], text[500];

	expect_refused("[target a]\n\nlevl = 1\n", "3: unknown key 'levl' (did you mean 'level'?)");
	expect_refused(
		"\n[tenant a]\n",
		"2: unknown section '[tenant a]': use [daemon], [target GLOB], [access NAME] or [trigger NAME]");
	expect_refused(
		"[target]\nlevel = 1\n",
		"1: unknown section '[target]': use [daemon], [target GLOB], [access NAME] or [trigger NAME]");
	expect_refused("[target  ]\n", "1: the section has no process pattern: use [target GLOB]");
	expect_refused("level = 1\n[target a]\n", "1: 'level' is outside a section");
	expect_refused("[target a]\nlevel\n", "2: neither a section nor KEY = VALUE");
	expect_refused("[target a]\nlevel\nlevl = 1\n", "2: neither a section nor KEY = VALUE");
	expect_refused("[target a]\nlevel = 4\n", "2: invalid level '4': use 1, 2 or 3");
	expect_refused("[target a]\nlevel = 0\n", "2: invalid level '0': use 1, 2 or 3");
	expect_refused("[target a]\nrequests-count = 1x\n",
		       "2: invalid count '1x': use 1 to 1000000");
	expect_refused("[target a]\ninput-stages = maybe\n",
		       "2: invalid value 'maybe': use yes or no");
	expect_refused("[target a]\nslower-than = 0\n",
		       "2: invalid duration '0': use 500ms, 2s, 1.5s or 1m");
	expect_refused("[target a]\nmax-overhead = 101\n",
		       "2: invalid percentage '101': use 1, 0.5 or 20%; above 0 and at most 100");
	expect_refused("[target a]\npath =\n", "2: a value is missing");
	expect_refused("[target a]\npath = /a\npath = /b\n", "3: 'path' is given twice");
	expect_refused("[target a]\npath = /a\n /b\n", "3: 'path' is given twice");
	expect_refused("[daemon]\nlevel = 1\n", "2: unknown key 'level'");
	expect_refused("[daemon]\nmax-duration = 0\n",
		       "2: invalid number of seconds '0': use 1 to 86400");
	expect_refused("[daemon]\nlisten = no\nlisten = no\n", "3: 'listen' is given twice");
	expect_refused("[daemon]\nrecorder = 4\n",
		       "2: invalid recorder level '4': use off, 1, 2 or 3");
	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = 0;
	snprintf(text, sizeof(text), "[target a]\npath = %s\nlevel = 1\n", line);
	expect_refused(text, "2: the line is longer than 198 bytes");
}

#define TRIGGERS "[daemon]\nrecorder = 1\nrecorder-last = 20s\nsnapshot-directory = /s\n"

TEST(every_key_of_a_trigger_is_read_and_others_have_defaults)
{
	struct config *config;

	CHECK_EQ(
		read_text(
			TRIGGERS
			"snapshot-interval = 5m\nsnapshots-keep = 7\nsnapshots-size = 3\n"
			"[trigger slow-1]\nmodel = m*\nlatency-above = 50ms\nrequests = 3\nwindow = 30s\n"
			"last = 15s\n[trigger p99]\np99-above = 20ms\n"
			"[trigger e]\nerror-rate-above = 5%\n[trigger l]\nlatency-above = 1s\n"
			"[trigger q]\nqueue-above = 8\n",
			&config),
		0);
	if (!config)
		return;
	CHECK_STR(config->snapshots.directory, "/s");
	CHECK_EQ(config->snapshots.interval_ns, 300000000000);
	CHECK_EQ(config->snapshots.keep, 7);
	CHECK_EQ(config->snapshots.bytes, 3 << 20);
	CHECK_EQ(config->n_triggers, 5);
	CHECK_STR(config->triggers[0].name, "slow-1");
	CHECK_STR(config->triggers[0].model, "m*");
	CHECK_EQ(config->triggers[0].condition, TRIGGER_LATENCY);
	CHECK_EQ(config->triggers[0].latency_ns, 50000000);
	CHECK_EQ(config->triggers[0].requests, 3);
	CHECK_EQ(config->triggers[0].window_ns, 30000000000);
	CHECK_EQ(config->triggers[0].last_ns, 15000000000);
	CHECK_EQ(config->triggers[1].condition, TRIGGER_P99);
	CHECK_EQ(config->triggers[1].requests, 100);
	CHECK_EQ(config->triggers[1].window_ns, 10000000000);
	CHECK_EQ(config->triggers[1].last_ns, 10000000000);
	CHECK_EQ(config->triggers[2].condition, TRIGGER_ERRORS);
	CHECK(config->triggers[2].percent == 5);
	CHECK_EQ(config->triggers[2].requests, 20);
	CHECK_EQ(config->triggers[3].requests, 1);
	CHECK_EQ(config->triggers[4].condition, TRIGGER_QUEUE);
	CHECK_EQ(config->triggers[4].queue, 8);
	config_free(config);
}

TEST(a_reload_takes_other_triggers_if_they_can_work_with_what_the_daemon_has_since_its_start)
{
	struct config *config, *again = NULL;
	char *flags[] = { "tfprofd", "--config", path, NULL };
	FILE *file;

	write_file(TRIGGERS "[trigger a]\nlatency-above = 1s\n");
	CHECK_EQ(read_flags(flags, &config), 0);
	n_restarts = 0;
	CHECK_EQ(config_renew(config, 3, flags, open(path, O_RDONLY), note_restart, NULL, &again,
			      error, sizeof(error)),
		 0);
	CHECK_EQ(n_restarts, 0);
	config_free(again);
	file = fopen(path, "w");
	fputs(TRIGGERS "[trigger a]\nlatency-above = 2s\n[trigger b]\nlatency-above = 1s\n", file);
	fclose(file);
	CHECK_EQ(config_renew(config, 3, flags, open(path, O_RDONLY), note_restart, NULL, &again,
			      error, sizeof(error)),
		 0);
	CHECK_EQ(n_restarts, 0);
	CHECK_EQ(again->n_triggers, 2);
	CHECK_EQ(again->triggers[0].latency_ns, 2000000000);
	config_free(again);
	file = fopen(path, "w");
	fputs("[daemon]\nrecorder = 1\nrecorder-last = 40s\nsnapshot-directory = /s\n[trigger q]\nqueue-above = 3\nlast = 30s\n",
	      file);
	fclose(file);
	CHECK_EQ(config_renew(config, 3, flags, open(path, O_RDONLY), note_restart, NULL, &again,
			      error, sizeof(error)),
		 0);
	CHECK_EQ(n_restarts, 2);
	CHECK_STR(restarted, "[trigger]");
	CHECK_EQ(again->n_triggers, 1);
	CHECK_STR(again->triggers[0].name, "a");
	CHECK_EQ(again->triggers[0].latency_ns, 1000000000);
	config_free(again);
	config_free(config);
	unlink(path);
}

TEST(a_trigger_that_cannot_work_is_refused_with_what_to_do)
{
	expect_refused(
		TRIGGERS "[trigger a]\n",
		" [trigger a] has no condition: give latency-above, p99-above, error-rate-above or queue-above");
	expect_refused(
		"[daemon]\nsnapshot-directory = /s\n[trigger a]\nlatency-above = 1s\n",
		" [trigger a] keeps what the flight recorder holds: turn it on with recorder = 1");
	expect_refused(
		"[daemon]\nrecorder = 1\n[trigger a]\nlatency-above = 1s\n",
		" [trigger a] needs a place for its snapshots: name one with snapshot-directory");
	expect_refused(
		TRIGGERS "[trigger a]\nlatency-above = 1s\nlast = 21s\n",
		" [trigger a]: last is longer than the recorder keeps: lower it, or raise recorder-last");
	expect_refused(TRIGGERS "[trigger a]\nlatency-above = 1s\np99-above = 1s\n",
		       "7: a section has one condition: add another [trigger NAME] for this one");
	expect_refused(TRIGGERS "[trigger a]\nlatency-above = fast\n",
		       "6: invalid duration 'fast': use 500ms, 2s, 1.5s or 1m");
	expect_refused(TRIGGERS "[trigger a]\nerror-rate-above = 100\n",
		       "6: invalid percentage '100': use 5%, 0.5 or 20%; above 0 and below 100");
	expect_refused(TRIGGERS "[trigger a]\nwindow = 100ms\n",
		       "6: invalid duration '100ms': use 1s, 30s or 1m; 1s to 10m");
	expect_refused(TRIGGERS "[trigger a]\nrequests = 0\n",
		       "6: invalid number of requests '0': use 1 to 1000000");
	expect_refused(
		TRIGGERS "[trigger a]\nqueue-above = 3\nwindow = 2s\n",
		" [trigger a]: queue-above counts requests in progress, of all models: leave out requests, window and model");
	expect_refused(TRIGGERS "[trigger a]\nlatency-abov = 1s\n",
		       "6: unknown key 'latency-abov' (did you mean 'latency-above'?)");
	expect_refused(TRIGGERS "[trigger ]\n", "5: the section has no name: use [trigger NAME]");
	expect_refused(
		TRIGGERS "[trigger a/b]\n",
		"5: invalid name of a trigger: use up to 32 letters, digits, '-' and '_', of which names of files are made");
	expect_refused(TRIGGERS "[trigger a]\n[trigger a]\n",
		       "6: there are two sections [trigger a]");
	expect_refused(
		"[daemon]\nsnapshot-directory = /var/lib/tfprofd/s\n",
		" snapshot-directory must be a directory of its own: neither state-dir, nor in it, nor around it");
	expect_refused(
		"[daemon]\nsnapshot-directory = /var/lib\n",
		" snapshot-directory must be a directory of its own: neither state-dir, nor in it, nor around it");
	expect_refused("[daemon]\nsnapshot-interval = 0.5s\n",
		       "2: invalid duration '0.5s': use 30s, 10m or 1h; at least 1s");
}

TEST(a_missing_file_is_named)
{
	struct config *config;

	CHECK_EQ(read_flags(FLAGS("--config", "/nowhere/tfprofd.ini"), &config), -ENOENT);
	CHECK_STR(error, "cannot read /nowhere/tfprofd.ini: No such file or directory");
}

CHECK_MAIN()
