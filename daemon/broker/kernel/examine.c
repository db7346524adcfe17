/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/kernel/examine.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

#include "bpf/tfprofd.skel.h"
#include "daemon/broker/kernel/empty_program.h"
#include "daemon/broker/kernel/libbpf_log.h"
#include "daemon/broker/limits.h"
#include "lib/base/macro.h"

/* BPF_LOG_STATS of the kernel's verifier. */
#define LOG_FIGURES 4

/* Gives every ring its minimal size. */
static int shrink_rings(struct tfprofd_bpf *skel)
{
	struct bpf_map *map;
	int r = 0;

	bpf_object__for_each_map (map, skel->obj)
		if (r >= 0 && bpf_map__type(map) == BPF_MAP_TYPE_RINGBUF)
			r = bpf_map__set_max_entries(map, (__u32)sysconf(_SC_PAGESIZE));
	return r;
}

/* Whether the cause of the error is temporary and not in the program. */
static bool is_temporary(int error)
{
	return is_out_of_room(error) || error == -EAGAIN || error == -EINTR;
}

/* Not every kernel, and not every machine, lets programs run where its functions begin or return.
 * If that cannot be tried now, the load itself finds out. */
static bool may_trace(unsigned function, enum bpf_attach_type where)
{
	int program = empty_program_load_at_function(function, where);

	if (program < 0)
		return is_temporary(program);
	close(program);
	return true;
}

bool program_is_supported(enum program program)
{
	const struct program_facts *f = &program_facts[program];
	enum bpf_attach_type where = program_attach_type(f);
	int id = f->needs ? libbpf_find_vmlinux_btf_id(f->needs, where) : 0;

	return id >= 0 && (where == BPF_TRACE_RAW_TP || may_trace((unsigned)id, where));
}

int program_load_alone(enum program program, int attach_type, char *ret_figures, size_t size,
		       size_t *ret_instructions)
{
	struct tfprofd_bpf *skel = tfprofd_bpf__open();
	struct bpf_program *p;
	int r;

	if (!skel)
		return -errno;
	skel->rodata->n_rings = RECORD_CPU_RINGS;
	if (attach_type) {
		bpf_program__set_expected_attach_type(skel->progs.probe,
						      (enum bpf_attach_type)attach_type);
		bpf_program__set_expected_attach_type(skel->progs.on_plaintext,
						      (enum bpf_attach_type)attach_type);
	}
	for (enum program i = 0; i < PROGRAM_COUNT; i++)
		bpf_program__set_autoload(
			bpf_object__find_program_by_name(skel->obj, program_facts[i].name),
			i == program);
	p = bpf_object__find_program_by_name(skel->obj, program_facts[program].name);
	if (ret_figures) {
		bpf_program__set_log_level(p, LOG_FIGURES);
		bpf_program__set_log_buf(p, ret_figures, size);
	}
	r = shrink_rings(skel);
	if (r >= 0)
		r = tfprofd_bpf__load(skel);
	if (ret_instructions)
		*ret_instructions = bpf_program__insn_cnt(p);
	tfprofd_bpf__destroy(skel);
	return r;
}

int programs_examine(int attach_type, struct program_verdict ret[PROGRAM_COUNT])
{
	int refused = 0, r = 0;

	memset(ret, 0, PROGRAM_COUNT * sizeof(ret[0]));
	for (enum program i = 0; i < PROGRAM_COUNT && !is_temporary(r); i++) {
		_cleanup_free_ char *log = NULL;

		if (!program_is_supported(i))
			continue;
		r = libbpf_log_begin();
		if (r < 0)
			continue;
		r = program_load_alone(i, attach_type, NULL, 0, NULL);
		log = libbpf_log_take();
		if (r >= 0)
			continue;
		ret[i].error = r;
		libbpf_log_reason(log ?: "", ret[i].reason, sizeof(ret[i].reason));
		ret[i].log = TAKE_PTR(log);
		refused++;
	}
	if (!is_temporary(r))
		return refused;
	program_verdicts_done(ret);
	return r;
}

void program_verdicts_done(struct program_verdict verdicts[PROGRAM_COUNT])
{
	for (enum program i = 0; i < PROGRAM_COUNT; i++)
		free(verdicts[i].log);
}
