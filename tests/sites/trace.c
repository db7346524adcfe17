/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sites/trace.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "daemon/broker/kernel/attach.h"
#include "daemon/broker/kernel/perf_uprobe.h"
#include "daemon/broker/kernel/uprobe_multi.h"
#include "lib/base/macro.h"
#include "sites/trace.skel.h"

struct trace {
	struct trace_bpf *skel;
	bool multi;    /* the kernel has links of many */
	int *attached; /* descriptors */
	unsigned n_attached;
	const struct hit *hits;
};

int trace_new(const uint64_t *call_address, struct trace **ret)
{
	struct trace *trace = calloc(1, sizeof(*trace));
	void *hits;
	int r;

	if (!trace)
		return -ENOMEM;
	trace->skel = trace_bpf__open();
	if (!trace->skel) {
		r = -errno;
		goto fail;
	}
	trace->skel->rodata->call_address = (uint64_t)(uintptr_t)call_address;
	trace->multi = attach_mode_find() == ATTACH_MULTI;
	if (trace->multi) {
		bpf_program__set_expected_attach_type(
			trace->skel->progs.on_hit, (enum bpf_attach_type)ATTACH_TYPE_UPROBE_MULTI);
		bpf_program__set_expected_attach_type(
			trace->skel->progs.on_count,
			(enum bpf_attach_type)ATTACH_TYPE_UPROBE_MULTI);
	}
	r = trace_bpf__load(trace->skel);
	if (r < 0)
		goto fail;
	hits = mmap(NULL, HITS_MAX * sizeof(struct hit), PROT_READ, MAP_SHARED,
		    bpf_map__fd(trace->skel->maps.hits), 0);
	if (hits == MAP_FAILED) {
		r = -errno;
		goto fail;
	}
	trace->hits = hits;
	*ret = trace;
	return 0;
fail:
	trace_free(trace);
	return r;
}

struct trace *trace_free(struct trace *trace)
{
	if (!trace)
		return NULL;
	trace_detach(trace);
	free(trace->attached);
	if (trace->hits)
		munmap((void *)trace->hits, HITS_MAX * sizeof(struct hit));
	trace_bpf__destroy(trace->skel);
	free(trace);
	return NULL;
}

int trace_attach(struct trace *trace, pid_t pid, int fd, const uint64_t *offsets,
		 const uint64_t *cookies, unsigned count)
{
	int program = bpf_program__fd(cookies ? trace->skel->progs.on_hit
					      : trace->skel->progs.on_count),
	    link, event;
	int *attached =
		realloc(trace->attached, (trace->n_attached + 2 * count) * sizeof(*attached));
	char path[32];

	if (!attached)
		return -ENOMEM;
	trace->attached = attached;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (trace->multi) {
		link = uprobe_multi_link(program, path, offsets, cookies, NULL, count, false, pid);
		if (link >= 0)
			attached[trace->n_attached++] = link;
		return MIN(link, 0);
	}
	for (unsigned i = 0; i < count; i++) {
		link = perf_uprobe_link(program, fd, offsets[i], cookies ? cookies[i] : 0, 0, false,
					pid, &event);
		if (link < 0)
			return link;
		attached[trace->n_attached++] = link;
		attached[trace->n_attached++] = event;
	}
	return 0;
}

void trace_detach(struct trace *trace)
{
	while (trace->n_attached)
		close(trace->attached[--trace->n_attached]);
}

uint64_t trace_take_hits(struct trace *trace, const struct hit **ret)
{
	uint64_t n = trace->skel->bss->n_hits;

	trace->skel->bss->n_hits = 0;
	*ret = trace->hits;
	return n;
}

uint64_t trace_counted(const struct trace *trace)
{
	return trace->skel->bss->n_counted;
}
