/* SPDX-License-Identifier: Apache-2.0 */
/* The line that gives the reason why a program was refused, found in the output of libbpf and the
 * verifier. */
#include "daemon/broker/kernel/libbpf_log.h"

#include <bpf/libbpf.h>
#include <stdlib.h>

#include "tests/unit/check.h"

#define LOG(body)                                                                                  \
	"libbpf: prog 'on_exit': BPF program load failed: Invalid argument\n"                      \
	"libbpf: prog 'on_exit': -- BEGIN PROG LOAD LOG --\n" body "-- END PROG LOAD LOG --\n"     \
	"libbpf: prog 'on_exit': failed to load: -22\n"                                            \
	"libbpf: failed to load object 'tfprofd_bpf'\n"

static void check_reason(const char *log, const char *expected)
{
	char reason[64];

	libbpf_log_reason(log, reason, sizeof(reason));
	CHECK_STR(reason, expected);
}

TEST(the_reason_is_the_last_line_of_the_verifier)
{
	check_reason(
		LOG("0: R1=ctx(off=0,imm=0) R10=fp0\n81: (b7) r0 = 0\n82: (95) exit\nUnreleased reference id=10 alloc_insn=217\n"
		    "processed 207 insns (limit 1000000) max_states_per_insn 1 total_states 18\n"),
		"Unreleased reference id=10 alloc_insn=217");
	/* A truncated log has no figures. */
	check_reason(LOG("82: (95) exit\nR1 invalid mem access 'scalar'\n\n"),
		     "R1 invalid mem access 'scalar'");
}

TEST(without_a_verifier_log_it_is_the_first_message_of_libbpf)
{
	check_reason(
		"libbpf: prog 'on_exit': failed to find kernel BTF type ID of 'sched_process_exit': -3\nlibbpf: failed to load object\n",
		"prog 'on_exit': failed to find kernel BTF type ID of 'sched_pro");
	check_reason(LOG(""), "prog 'on_exit': BPF program load failed: Invalid argument");
	check_reason("something else", "something else");
	check_reason("", "");
}

TEST(messages_of_libbpf_are_collected_only_on_request)
{
	char *log;

	libbpf_log_setup();
	CHECK(!bpf_object__open_file("/nonexistent.o", NULL));
	CHECK(!libbpf_log_take());
	CHECK_EQ(libbpf_log_begin(), 0);
	CHECK(!bpf_object__open_file("/nonexistent.o", NULL));
	log = libbpf_log_take();
	CHECK(log && strstr(log, "/nonexistent.o"));
	free(log);
	CHECK(!libbpf_log_take());
}

CHECK_MAIN()
