/*
 * Loads each BPF program by itself, as root, and prints what the verifier says of it, a line each:
 *   NAME ok INSTRUCTIONS EXAMINED STATES MICROSECONDS     instructions of the program, those that the verifier went through
 *   NAME absent                                           this kernel has no such tracepoint
 *   NAME refused REASON
 * Ends with 1 when one is refused.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bpf/tfprofd.skel.h"
#include "daemon/broker/attach.h"
#include "daemon/broker/libbpf_log.h"
#include "daemon/broker/programs.h"
#include "daemon/broker/uprobe_multi.h"
#include "lib/base/macro.h"

#define LOG_STATS 4
#define LOG_BYTES 4096

static long number_after(const char *log, const char *word)
{
	const char *at = strstr(log, word);

	return at ? strtol(at + strlen(word), NULL, 10) : -1;
}

static int load(enum program program, int attach_type, char log[LOG_BYTES], size_t *ret_instructions)
{
	struct tfprofd_bpf *skel = tfprofd_bpf__open();
	struct bpf_program *p;
	int r;

	if (!skel)
		return -errno;
	skel->rodata->n_rings = RECORD_MAX_RINGS;
	if (attach_type)
		bpf_program__set_expected_attach_type(skel->progs.probe, (enum bpf_attach_type)attach_type);
	for (enum program i = 0; i < PROGRAM_COUNT; i++)
		bpf_program__set_autoload(bpf_object__find_program_by_name(skel->obj, program_facts[i].name), i == program);
	p = bpf_object__find_program_by_name(skel->obj, program_facts[program].name);
	bpf_program__set_log_level(p, LOG_STATS);
	bpf_program__set_log_buf(p, log, LOG_BYTES);
	r = tfprofd_bpf__load(skel);
	*ret_instructions = bpf_program__insn_cnt(p);
	tfprofd_bpf__destroy(skel);
	return r;
}

int main(void)
{
	struct program_verdict verdicts[PROGRAM_COUNT];
	int mode, attach_type, refused;

	libbpf_log_setup();
	mode = attach_mode_find();
	attach_type = mode == ATTACH_MULTI ? ATTACH_TYPE_UPROBE_MULTI : 0;
	refused = mode < 0 ? mode : programs_examine(attach_type, verdicts);
	if (refused < 0) {
		fprintf(stderr, "verifier: cannot load programs: %s\n", strerror(-refused));
		return 2;
	}
	for (enum program i = 0; i < PROGRAM_COUNT; i++) {
		const struct program_facts *f = &program_facts[i];
		char log[LOG_BYTES] = "";
		size_t instructions = 0;

		if (f->needs && libbpf_find_vmlinux_btf_id(f->needs, BPF_TRACE_RAW_TP) < 0)
			printf("%s absent\n", f->name);
		else if (verdicts[i].error)
			printf("%s refused %s\n%s\n", f->name, verdicts[i].reason, verdicts[i].log ?: "");
		else if (load(i, attach_type, log, &instructions) >= 0)
			printf("%s ok %zu %ld %ld %ld\n", f->name, instructions, number_after(log, "processed "), number_after(log, "total_states "),
			       number_after(log, "verification time "));
		else
			printf("%s refused at the second time\n", f->name), refused++;
	}
	program_verdicts_done(verdicts);
	return refused > 0;
}
