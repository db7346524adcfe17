/* SPDX-License-Identifier: Apache-2.0 */
/* The preflight's findings for facts about a host and a process. */
#include "daemon/broker/doctor/preflight.h"
#include "daemon/broker/kernel/program_cache.h"

#include <errno.h>

#include "daemon/broker/kernel/capabilities.h"
#include "lib/base/macro.h"
#include "tests/unit/check.h"

/* A host without problems. */
static struct host_facts good(void)
{
	return (struct host_facts){
		.capabilities = (1u << CAPABILITIES) - 1,
		.proc = true,
		.initial_pids = true,
		.sideband = true,
		.perf_paranoid = 2,
		.unprivileged_bpf = 2,
		.max_files = 4096,
		.max_locked_bytes = UINT64_MAX,
	};
}

static const struct broker_finding *find(const struct findings *f, const char *code)
{
	for (unsigned i = 0; i < f->n; i++)
		if (!strcmp(f->list[i].code, code))
			return &f->list[i];
	return NULL;
}

static struct findings judge(const struct host_facts *facts)
{
	struct findings f = {};

	preflight_judge_host(facts, &f);
	return f;
}

/* Checks that there is one finding, of that code and severity, that fits into a broker's
 * message. */
static void check_only(const struct findings *f, const char *code, enum finding_severity severity)
{
	char line[512];

	CHECK_EQ(f->n, 1);
	CHECK_STR(f->list[0].code, code);
	CHECK_EQ(f->list[0].severity, severity);
	CHECK(*f->list[0].text && *f->list[0].remedy);
	preflight_describe(&f->list[0], line, sizeof(line));
	CHECK(strlen(line) < sizeof(((struct broker_message *)0)->text));
	CHECK(!strncmp(line, code, strlen(code)) && line[strlen(code)] == ':');
	CHECK((preflight_error(f) != NULL) == (severity == FINDING_ERROR));
}

TEST(a_good_host_has_no_finding)
{
	struct host_facts facts = good();

	CHECK_EQ(judge(&facts).n, 0);
}

TEST(each_missing_capability_is_a_finding_of_its_own)
{
	struct host_facts facts = good();
	struct findings f;

	for (unsigned i = 0; i < CAPABILITIES; i++) {
		facts = good();
		facts.mode = ATTACH_PERF_EVENT;
		facts.capabilities &= ~(1u << i);
		f = judge(&facts);
		check_only(&f, capabilities[i].code, FINDING_ERROR);
		CHECK(strstr(f.list[0].text, capabilities[i].name) &&
		      strstr(f.list[0].remedy, "root"));
	}
	facts.capabilities = 0;
	f = judge(&facts);
	CHECK_EQ(f.n, CAPABILITIES);
}

TEST(requirements_of_perf_events_apply_only_to_them)
{
	struct host_facts facts = good();

	facts.capabilities &= ~(1u << (CAPABILITIES - 1));
	CHECK_EQ(judge(&facts).n, 0);
}

TEST(each_bad_fact_has_its_finding)
{
	static const struct {
		const char *code;
		enum finding_severity severity;
		struct host_facts change;
		size_t offset, size;
	} cases[] = {
#define CASE(code_, severity_, field_, value_)                                                     \
	{ .code = code_,                                                                           \
	  .severity = severity_,                                                                   \
	  .change.field_ = value_,                                                                 \
	  .offset = offsetof(struct host_facts, field_),                                           \
	  .size = sizeof(((struct host_facts *)0)->field_) }
		CASE("no-btf", FINDING_ERROR, btf, -ENOENT),
		CASE("lockdown", FINDING_ERROR, confidential, true),
		CASE("no-bpf", FINDING_ERROR, bpf.program, -EPERM),
		CASE("no-bpf", FINDING_ERROR, bpf.program, -ENOSYS),
		CASE("no-bpf-ring", FINDING_ERROR, bpf.ring, -EINVAL),
		CASE("memlock", FINDING_ERROR, bpf.ring, -EPERM),
		CASE("no-bpf-cookie", FINDING_ERROR, bpf.cookie, -EOPNOTSUPP),
		CASE("no-bpf-loop", FINDING_ERROR, bpf.loop, -EOPNOTSUPP),
		CASE("no-tp-btf", FINDING_ERROR, bpf.tracepoint, -ENOENT),
		CASE("perf-event-probes", FINDING_WARNING, mode, ATTACH_PERF_EVENT),
		CASE("no-proc", FINDING_ERROR, proc, false),
		CASE("pid-namespace", FINDING_ERROR, initial_pids, false),
		CASE("hidepid", FINDING_WARNING, hides_processes, true),
		CASE("no-sideband", FINDING_WARNING, sideband, false),
		CASE("few-files", FINDING_WARNING, max_files, 256),
		CASE("few-files", FINDING_ERROR, max_files, 255),
		CASE("unprivileged-bpf", FINDING_NOTE, unprivileged_bpf, 0),
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct host_facts facts = good();
		struct findings f;

		memcpy((char *)&facts + cases[i].offset,
		       (const char *)&cases[i].change + cases[i].offset, cases[i].size);
		f = judge(&facts);
		check_only(&f, cases[i].code, cases[i].severity);
	}
}

TEST(a_filter_is_blamed_only_when_programs_are_refused)
{
	struct host_facts facts = good();
	struct findings f;

	facts.filtered = true;
	CHECK_EQ(judge(&facts).n, 0);
	facts.bpf.program = -EPERM;
	f = judge(&facts);
	check_only(&f, "seccomp", FINDING_ERROR);
}

TEST(without_capabilities_the_kernel_is_not_blamed)
{
	struct host_facts facts = good();
	struct findings f;

	facts.capabilities = 0;
	facts.bpf.program = -EPERM;
	f = judge(&facts);
	CHECK(find(&f, "no-cap-bpf") && !find(&f, "no-bpf"));
}

TEST(a_refused_program_is_named_with_what_is_lost)
{
	struct program_verdict verdicts[PROGRAM_COUNT] = {};
	struct findings f = {};

	preflight_judge_programs(verdicts, &f);
	CHECK_EQ(f.n, 0);
	for (enum program i = 0; i < PROGRAM_COUNT; i++) {
		f.n = 0;
		verdicts[i] =
			(struct program_verdict){ .error = -EINVAL, .reason = "R1 is no pointer" };
		preflight_judge_programs(verdicts, &f);
		verdicts[i].error = 0;
		CHECK_EQ(f.n, 1);
		CHECK_STR(f.list[0].code, "program-refused");
		CHECK_EQ(f.list[0].severity,
			 program_facts[i].kind == KIND_COUNT ? FINDING_ERROR : FINDING_WARNING);
		CHECK(strstr(f.list[0].text, program_facts[i].name) &&
		      strstr(f.list[0].text, "R1 is no pointer"));
		CHECK(strstr(f.list[0].remedy, PROGRAMS_LOG));
	}
}

TEST(harmless_restrictions_are_a_note_each)
{
	static const char *const codes[] = { "perf-paranoid", "unprivileged-bpf", "lockdown",
					     "memlock",       "jit-harden",       "cgroup-v1",
					     "no-tracefs" };
	struct host_facts free = good(), restricted = good();
	struct findings f = {};

	free.unprivileged_bpf = 0;
	free.unified_cgroups = free.tracefs = true;
	preflight_list_limits(&free, &f);
	CHECK_EQ(f.n, 0);
	restricted.perf_paranoid = 3;
	restricted.integrity = true;
	restricted.max_locked_bytes = 8 << 20;
	restricted.bpf.jit_harden = 2;
	preflight_list_limits(&restricted, &f);
	CHECK_EQ(f.n, ARRAY_SIZE(codes));
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		CHECK(find(&f, codes[i]) && find(&f, codes[i])->severity == FINDING_OK);
	/* Files that were not opened are reported elsewhere, as a warning. */
	restricted.sideband = false;
	f.n = 0;
	preflight_list_limits(&restricted, &f);
	CHECK(!find(&f, "perf-paranoid"));
}

TEST(a_process_that_can_be_captured_has_no_finding)
{
	struct process_facts facts = { .state = 'S', .process = 7 };
	struct findings f = {};

	preflight_judge_process(7, &facts, &f);
	CHECK_EQ(f.n, 0);
}

TEST(each_kind_of_unsuitable_process_has_its_finding)
{
	static const struct {
		const char *code;
		struct process_facts facts;
	} cases[] = {
		{ "no-process", { .error = -ESRCH } },
		{ "unreadable", { .error = -EACCES } },
		{ "kernel-thread", { .state = 'I', .kernel_thread = true, .process = 7 } },
		{ "ended", { .state = 'Z', .process = 7 } },
		{ "no-process", { .state = 'S', .process = 6 } },
		{ "architecture", { .state = 'S', .process = 7, .foreign = true } },
		{ "unreadable", { .state = 'S', .process = 7, .maps = -EACCES } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct findings f = {};

		preflight_judge_process(7, &cases[i].facts, &f);
		check_only(&f, cases[i].code, FINDING_ERROR);
		CHECK(strstr(f.list[0].text, "7"));
	}
}

TEST(a_full_list_accepts_no_more)
{
	struct process_facts gone = { .error = -ESRCH };
	struct findings f = {};

	for (unsigned i = 0; i < PREFLIGHT_MAX + 3; i++)
		preflight_judge_process(7, &gone, &f);
	CHECK_EQ(f.n, PREFLIGHT_MAX);
}

TEST(facts_about_processes_are_read_from_proc)
{
	struct process_facts facts;

	process_facts_find(getpid(), &facts);
	CHECK(facts.error == 0 && facts.process == getpid() && !facts.kernel_thread &&
	      !facts.foreign && facts.maps == 0);
	process_facts_find(0x3fffffff, &facts);
	CHECK_EQ(facts.error, -ESRCH);
	process_facts_find(-1, &facts);
	CHECK_EQ(facts.error, -ESRCH);
}

TEST(every_program_is_loaded_once_in_the_order_of_the_table)
{
	enum program order[PROGRAM_COUNT];
	bool seen[PROGRAM_COUNT] = {};

	programs_load_order(order);
	for (unsigned i = 0; i < PROGRAM_COUNT; i++) {
		CHECK(!seen[order[i]]);
		seen[order[i]] = true;
		CHECK_EQ(program_facts[order[i]].load_rank, i + 1);
	}
	CHECK_EQ(order[0], PROGRAM_PROBE);
}

CHECK_MAIN()
