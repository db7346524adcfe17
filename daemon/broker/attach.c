#include "daemon/broker/attach.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "bpf/tfprofd.skel.h"
#include "include/record_types.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

/* BPF_TRACE_UPROBE_MULTI of Linux 6.6; Debian 12's headers and libbpf do not know it. */
#define ATTACH_TYPE_UPROBE_MULTI 48
#define CLOSERS_MAX 16u

/* The part of bpf(2)'s attribute that makes such a link. */
struct uprobe_multi_attr {
	__u32 program_fd;
	__u32 target_fd;
	__u32 attach_type;
	__u32 flags;
	__u64 path;
	__u64 offsets;
	__u64 ref_ctr_offsets;
	__u64 cookies;
	__u32 count;
	__u32 multi_flags;
	__u32 pid;
	__u32 reserved;
};

/* What is attached: a link of many sites of one process, or a perf event, or a tracepoint. */
struct attached {
	int fd;		       /* of a link of many sites; -1: none */
	struct bpf_link *link; /* otherwise */
	pid_t pid;	       /* 0: a tracepoint */
	enum probe_kind kind;
};

struct detached {
	unsigned n;
	struct attached links[];
};

struct attachment {
	enum attach_mode mode;
	unsigned level;
	bool scheduler; /* its programs are attached */
	bool failed;	/* something could not be attached: there is no second try */
	struct tfprofd_bpf *skel;
	struct bpf_map *rings[RECORD_MAX_RINGS]; /* the skeleton's */
	unsigned n_rings;
	struct attach_site sites[BROKER_MAX_SITES];
	unsigned n_sites, n_attached;
	struct record_targets targets;
	struct attached links[BROKER_MAX_SITES + 8]; /* a site each at the most, and the scheduler's */
	unsigned n_links;
	bool shed[KIND_COUNT];
};

static int uprobe_multi_link(int program, const char *path, const uint64_t *offsets, const uint64_t *cookies, const uint64_t *semaphores,
			     unsigned count, pid_t pid)
{
	struct uprobe_multi_attr attr = {
		.program_fd = (__u32)program,
		.attach_type = ATTACH_TYPE_UPROBE_MULTI,
		.path = (__u64)(uintptr_t)path,
		.offsets = (__u64)(uintptr_t)offsets,
		.cookies = (__u64)(uintptr_t)cookies,
		.ref_ctr_offsets = (__u64)(uintptr_t)semaphores,
		.count = count,
		.pid = (__u32)pid,
	};
	int fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));

	return fd < 0 ? -errno : fd;
}

int attach_mode_find(void)
{
	struct bpf_insn code[] = { { .code = BPF_ALU64 | BPF_MOV | BPF_K }, { .code = BPF_JMP | BPF_EXIT } };
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = (enum bpf_attach_type)ATTACH_TYPE_UPROBE_MULTI);
	_cleanup_close_ int program = -1;
	uint64_t offset = 0;
	int r;

	program = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "feature", "GPL", code, ARRAY_SIZE(code), &options);
	if (program < 0)
		return errno == EPERM ? -EPERM : ATTACH_PERF_EVENT;
	/* A directory cannot be probed: -EBADF says that the kernel understood the question. */
	r = uprobe_multi_link(program, "/", &offset, NULL, NULL, 1, 0);
	if (r >= 0)
		close(r);
	return r == -EBADF || r == -EISDIR ? ATTACH_MULTI : ATTACH_PERF_EVENT;
}

/* Sizes the rings that are needed; the others are not made. */
static int size_rings(struct attachment *a)
{
	struct bpf_map *const rings[RECORD_MAX_RINGS] = {
		a->skel->maps.ring_0, a->skel->maps.ring_1, a->skel->maps.ring_2, a->skel->maps.ring_3,
		a->skel->maps.ring_4, a->skel->maps.ring_5, a->skel->maps.ring_6, a->skel->maps.ring_7,
	};
	int r = 0;

	memcpy(a->rings, rings, sizeof(rings));
	for (unsigned i = 0; i < RECORD_MAX_RINGS && r >= 0; i++)
		r = i < a->n_rings ? bpf_map__set_max_entries(rings[i], BROKER_RING_BYTES) : bpf_map__set_autocreate(rings[i], false);
	return r;
}

int attachment_new(enum attach_mode mode, unsigned level, struct attachment **ret, const char **ret_reason)
{
	int cpus = libbpf_num_possible_cpus(), r;
	struct attachment *a;

	if (cpus < 0)
		return cpus;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->mode = mode;
	a->level = level;
	a->n_rings = (unsigned)MIN(cpus, RECORD_MAX_RINGS);
	a->skel = tfprofd_bpf__open();
	if (!a->skel) {
		r = -errno;
		*ret_reason = "cannot open the built-in BPF object";
		goto fail;
	}
	a->skel->rodata->n_rings = a->n_rings;
	a->skel->rodata->cpus_per_ring = ((unsigned)cpus + a->n_rings - 1) / a->n_rings;
	if (mode == ATTACH_MULTI)
		bpf_program__set_expected_attach_type(a->skel->progs.probe, (enum bpf_attach_type)ATTACH_TYPE_UPROBE_MULTI);
	r = size_rings(a);
	if (r >= 0)
		r = tfprofd_bpf__load(a->skel);
	if (r < 0) {
		*ret_reason = r == -EPERM   ? "loading BPF programs is not permitted here" :
			      r == -ENOMEM ? "no memory for the ring buffers" :
					     "the kernel refused the BPF programs";
		goto fail;
	}
	*ret = a;
	return 0;
fail:
	attachment_free(a);
	return r;
}

static void attached_done(struct attached *link)
{
	safe_close(link->fd);
	bpf_link__destroy(link->link);
	*link = (struct attached){ .fd = -1 };
}

/* Every n-th link, beginning with the first. */
struct closer {
	struct attached *first, *end;
	unsigned step;
};

static void *close_links(void *data)
{
	const struct closer *c = data;

	for (struct attached *l = c->first; l < c->end; l += c->step)
		attached_done(l);
	return NULL;
}

/* Each link waits for grace periods of the kernel when it goes; side by side they wait for the same ones. */
static void links_done(struct attached *links, unsigned n)
{
	struct closer closers[CLOSERS_MAX];
	pthread_t threads[CLOSERS_MAX];
	unsigned step = MIN(n, CLOSERS_MAX);
	bool started[CLOSERS_MAX];

	for (unsigned i = 0; i < step; i++) {
		closers[i] = (struct closer){ .first = links + i, .end = links + n, .step = step };
		started[i] = i + 1 < step && pthread_create(&threads[i], NULL, close_links, &closers[i]) == 0;
		if (!started[i])
			close_links(&closers[i]);
	}
	for (unsigned i = 0; i < step; i++)
		if (started[i])
			pthread_join(threads[i], NULL);
}

struct attachment *attachment_free(struct attachment *a)
{
	if (!a)
		return NULL;
	links_done(a->links, a->n_links);
	tfprofd_bpf__destroy(a->skel);
	free(a);
	return NULL;
}

unsigned attachment_fds(const struct attachment *a, int ret_fds[BROKER_MAX_FDS])
{
	unsigned n = 0;

	ret_fds[n++] = bpf_map__fd(a->skel->maps.control);
	ret_fds[n++] = bpf_map__fd(a->skel->maps.counters);
	for (unsigned i = 0; i < a->n_rings; i++)
		ret_fds[n++] = bpf_map__fd(a->rings[i]);
	return n;
}

int attachment_add_target(struct attachment *a, pid_t pid)
{
	__u32 zero = 0;

	if (a->targets.n == RECORD_MAX_TARGETS)
		return -E2BIG;
	a->targets.pids[a->targets.n++] = (__u32)pid;
	return bpf_map_update_elem(bpf_map__fd(a->skel->maps.targets), &zero, &a->targets, 0) < 0 ? -errno : 0;
}

int attachment_add_site(struct attachment *a, const struct attach_site *site)
{
	if (a->n_sites >= BROKER_MAX_SITES)
		return -E2BIG;
	a->sites[a->n_sites++] = *site;
	return 0;
}

void attachment_forget(struct attachment *a, pid_t pid)
{
	__u32 zero = 0;

	for (unsigned i = a->n_attached; i < a->n_sites; i++)
		if (a->sites[i].pid == pid)
			a->sites[i].pid = 0;
	for (unsigned i = 0; i < a->n_links; i++)
		if (a->links[i].fd >= 0 && a->links[i].pid == pid)
			attached_done(&a->links[i]);
	/* Not 0, which is the idle task's. */
	for (unsigned i = 0; i < a->targets.n; i++)
		if (a->targets.pids[i] == (__u32)pid)
			a->targets.pids[i] = UINT32_MAX;
	bpf_map_update_elem(bpf_map__fd(a->skel->maps.targets), &zero, &a->targets, 0);
}

int attachment_shed(struct attachment *a, enum probe_kind kind, struct detached **ret)
{
	struct detached *d = calloc(1, sizeof(*d) + a->n_links * sizeof(d->links[0]));

	if (!d)
		return -ENOMEM;
	a->shed[kind] = true;
	for (unsigned i = 0; i < a->n_links; i++)
		if (a->links[i].kind == kind && (a->links[i].fd >= 0 || a->links[i].link)) {
			d->links[d->n++] = a->links[i];
			a->links[i] = (struct attached){ .fd = -1 };
		}
	*ret = d;
	return 0;
}

struct detached *detached_free(struct detached *d)
{
	if (d)
		links_done(d->links, d->n);
	free(d);
	return NULL;
}

static int add_link(struct attachment *a, struct attached link)
{
	if (a->n_links >= ARRAY_SIZE(a->links)) {
		attached_done(&link);
		return -E2BIG;
	}
	a->links[a->n_links++] = link;
	return 0;
}

/* One link for all new sites of one process, file and kind, beginning with the one at first. */
static int attach_group(struct attachment *a, unsigned first, bool *done)
{
	uint64_t offsets[BROKER_MAX_SITES], cookies[BROKER_MAX_SITES], semaphores[BROKER_MAX_SITES];
	const struct attach_site *site = &a->sites[first];
	bool any_semaphore = false;
	unsigned n = 0;
	char path[32];
	int link;

	for (unsigned i = first; i < a->n_sites; i++) {
		const struct attach_site *s = &a->sites[i];

		if (done[i] || s->pid != site->pid || s->file != site->file || s->kind != site->kind)
			continue;
		done[i] = true;
		offsets[n] = s->offset;
		semaphores[n] = s->semaphore;
		any_semaphore |= s->semaphore != 0;
		cookies[n++] = s->cookie;
	}
	/* The very file that the front has read, whatever its path means now. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", site->file);
	link = uprobe_multi_link(bpf_program__fd(a->skel->progs.probe), path, offsets, cookies, any_semaphore ? semaphores : NULL, n,
				 site->pid);
	if (link < 0)
		return link == -ESRCH ? 0 : link;
	return add_link(a, (struct attached){ .fd = link, .pid = site->pid, .kind = site->kind });
}

static int attach_by_perf_event(struct attachment *a, const struct attach_site *site)
{
	LIBBPF_OPTS(bpf_uprobe_opts, options, .bpf_cookie = site->cookie, .ref_ctr_offset = site->semaphore);
	struct bpf_link *link;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", site->file);
	link = bpf_program__attach_uprobe_opts(a->skel->progs.probe, site->pid, path, site->offset, &options);
	if (!link)
		return errno == ESRCH ? 0 : -errno;
	return add_link(a, (struct attached){ .fd = -1, .link = link, .pid = site->pid, .kind = site->kind });
}

static int attach_scheduler(struct attachment *a)
{
	struct bpf_program *const programs[] = {
		a->skel->progs.on_exit,	  a->skel->progs.on_exec,   a->skel->progs.on_fork,
		a->skel->progs.on_switch, a->skel->progs.on_waking, a->skel->progs.on_wakeup_new,
	};
	enum { ALWAYS = 3 };

	/* Runs alone do not need to know when threads ran. */
	for (unsigned i = 0; i < (a->level >= 2 ? ARRAY_SIZE(programs) : ALWAYS); i++) {
		struct bpf_link *link = bpf_program__attach(programs[i]);
		int r = link ? 0 : -errno;

		if (r >= 0)
			r = add_link(a, (struct attached){ .fd = -1, .link = link, .kind = i < ALWAYS ? KIND_COUNT : KIND_SWITCHES });
		if (r < 0)
			return r;
	}
	a->scheduler = true;
	return 0;
}

int attachment_attach(struct attachment *a, const char **ret_reason)
{
	bool done[BROKER_MAX_SITES] = {};
	int r = 0;

	if (a->failed)
		return -EINVAL;
	a->failed = true;
	memset(done, 1, a->n_attached);
	for (unsigned i = a->n_attached; i < a->n_sites && r >= 0; i++) {
		if (!a->sites[i].pid || done[i] || a->shed[a->sites[i].kind])
			continue;
		r = a->mode == ATTACH_PERF_EVENT ? attach_by_perf_event(a, &a->sites[i]) : attach_group(a, i, done);
	}
	if (r < 0) {
		*ret_reason = "the kernel refused a uprobe";
		return r;
	}
	a->n_attached = a->n_sites;
	if (!a->scheduler) {
		r = attach_scheduler(a);
		if (r < 0)
			*ret_reason = "the kernel refused a scheduler tracepoint";
	}
	a->failed = r < 0;
	return r;
}

bool attachment_uses(const struct attachment *a, int file)
{
	for (unsigned i = 0; i < a->n_sites; i++)
		if (a->sites[i].file == file)
			return true;
	return false;
}

unsigned attachment_links(const struct attachment *a)
{
	unsigned n = 0;

	for (unsigned i = 0; i < a->n_links; i++)
		n += a->links[i].fd >= 0 || a->links[i].link;
	return n;
}

int attachment_name_threads(struct attachment *a)
{
	_cleanup_close_ int iterator = -1;
	struct bpf_link *link;
	char nothing[64];
	int r = 0;

	link = bpf_program__attach_iter(a->skel->progs.name_threads, NULL);
	if (!link)
		return -errno;
	iterator = bpf_iter_create(bpf_link__fd(link));
	if (iterator < 0) {
		r = -errno;
	} else {
		ssize_t n;

		do
			n = read(iterator, nothing, sizeof(nothing));
		while (n > 0 || (n < 0 && errno == EAGAIN));
		if (n < 0)
			r = -errno;
	}
	bpf_link__destroy(link);
	return r;
}
