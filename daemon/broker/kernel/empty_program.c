/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/kernel/empty_program.h"

#include <bpf/bpf.h>
#include <errno.h>

#include "daemon/broker/kernel/uprobe_multi.h"
#include "lib/base/macro.h"

static int load(enum bpf_prog_type type, enum bpf_attach_type attach_type, unsigned function)
{
	struct bpf_insn code[] = { { .code = BPF_ALU64 | BPF_MOV | BPF_K },
				   { .code = BPF_JMP | BPF_EXIT } };
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = attach_type,
		    .attach_btf_id = function);
	int program = bpf_prog_load(type, "empty", "GPL", code, ARRAY_SIZE(code), &options);

	return program < 0 ? -errno : program;
}

int empty_program_load(enum attach_mode mode)
{
	return load(BPF_PROG_TYPE_KPROBE,
		    mode == ATTACH_MULTI ? (enum bpf_attach_type)ATTACH_TYPE_UPROBE_MULTI
					 : (enum bpf_attach_type)0,
		    0);
}

int empty_program_load_at_function(unsigned function, enum bpf_attach_type where)
{
	return load(BPF_PROG_TYPE_TRACING, where, function);
}
