#include "daemon/broker/programs.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>

#include "bpf/tfprofd.skel.h"
#include "daemon/broker/limits.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

#define MAPS_MAX 24
#define SUBPROGRAMS_MAX 32

const struct program_facts program_facts[PROGRAM_COUNT] = {
	[PROGRAM_PROBE] = { "probe", KIND_COUNT },
	[PROGRAM_EXIT] = { "on_exit", KIND_COUNT, .is_tracepoint = true },
	[PROGRAM_EXEC] = { "on_exec", KIND_COUNT, .is_tracepoint = true },
	[PROGRAM_FORK] = { "on_fork", KIND_COUNT, .is_tracepoint = true },
	[PROGRAM_NAME_THREADS] = { "name_threads", KIND_COUNT },
	[PROGRAM_SWITCH] = { "on_switch", KIND_SWITCHES, .is_tracepoint = true },
	[PROGRAM_WAKING] = { "on_waking", KIND_SWITCHES, .is_tracepoint = true },
	[PROGRAM_WAKEUP_NEW] = { "on_wakeup_new", KIND_SWITCHES, .is_tracepoint = true },
	[PROGRAM_SYS_ENTER] = { "on_sys_enter", KIND_SOCKETS, .is_tracepoint = true },
	[PROGRAM_SYS_EXIT] = { "on_sys_exit", KIND_SOCKETS, .is_tracepoint = true },
	[PROGRAM_FIND_LISTENERS] = { "find_listeners", KIND_SOCKETS },
	[PROGRAM_DATA_READY] = { "on_data_ready", KIND_SOCKETS, .is_tracepoint = true, .is_extra = true, .needs = "sk_data_ready",
				 .unless = PROGRAM_COUNT },
	[PROGRAM_SEGMENT] = { "on_segment", KIND_SOCKETS, .is_tracepoint = true, .is_extra = true, .needs = "tcp_probe",
			      .unless = PROGRAM_DATA_READY },
};

/* The longest first, so that nobody waits for one at the end. */
static const enum program load_order[PROGRAM_COUNT] = {
	PROGRAM_PROBE, PROGRAM_SYS_EXIT, PROGRAM_SYS_ENTER, PROGRAM_SWITCH, PROGRAM_FIND_LISTENERS, PROGRAM_DATA_READY, PROGRAM_SEGMENT, PROGRAM_EXIT,
	PROGRAM_EXEC, PROGRAM_FORK, PROGRAM_WAKING, PROGRAM_WAKEUP_NEW, PROGRAM_NAME_THREADS,
};
#define LOADERS 4

/* Only the programs that follow sockets use these. */
static const char *const socket_maps[] = { "calls", "listeners", "flows", "windows" };

struct kept_map {
	char name[BPF_OBJ_NAME_LEN];
	enum bpf_map_type type;
	__u32 key_size, value_size, max_entries, flags;
	int fd; /* that the instructions name */
	void *value; /* of the only entry, which programs cannot change; NULL: none */
};

struct kept_program {
	bool there;
	enum bpf_prog_type type;
	__u32 attach_type, attach_btf_id;
	struct bpf_insn *instructions;
	size_t n_instructions;
	struct bpf_func_info functions[SUBPROGRAMS_MAX];
	__u32 n_functions;
};

struct program_cache {
	pthread_mutex_t lock;
	int log_directory;
	bool refuses; /* the kernel does not take all of them: the verdicts say which */
	unsigned refused_kinds;
	struct program_verdict verdicts[PROGRAM_COUNT];
	bool filled;
	unsigned kinds;
	size_t secret; /* offset of the secret in the programs' constants */
	int attach_type;
	int btf; /* the programs' types */
	struct kept_map maps[MAPS_MAX];
	unsigned n_maps;
	struct kept_program programs[PROGRAM_COUNT];
};

int program_cache_new(int log_directory, struct program_cache **ret)
{
	struct program_cache *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->btf = -1;
	c->log_directory = log_directory;
	pthread_mutex_init(&c->lock, NULL);
	*ret = c;
	return 0;
}

static void forget(struct program_cache *c)
{
	c->btf = safe_close(c->btf);
	for (unsigned i = 0; i < c->n_maps; i++)
		free(c->maps[i].value);
	for (unsigned i = 0; i < PROGRAM_COUNT; i++)
		free(c->programs[i].instructions);
	c->n_maps = 0;
	memset(c->programs, 0, sizeof(c->programs));
	c->filled = false;
}

struct program_cache *program_cache_free(struct program_cache *c)
{
	if (!c)
		return NULL;
	forget(c);
	program_verdicts_done(c->verdicts);
	pthread_mutex_destroy(&c->lock);
	free(c);
	return NULL;
}

void programs_done(struct programs *p)
{
	/* A negative one is that error, or none. */
	for (unsigned i = 0; i < PROGRAM_COUNT; i++)
		safe_close(p->programs[i]);
	for (unsigned i = 0; i < RECORD_MAX_RINGS; i++)
		safe_close(p->rings[i]);
	for (unsigned i = 0; i < ARRAY_SIZE(p->others); i++)
		safe_close(p->others[i]);
	safe_close(p->control);
	safe_close(p->targets);
	safe_close(p->counters);
}

static void programs_init(struct programs *p)
{
	memset(p, 0xff, sizeof(*p));
	p->n_rings = 0;
}

/* Puts a map where its users look for it; the descriptor is the set's from now on. */
static int take_map(struct programs *p, const char *name, int fd)
{
	if (!strcmp(name, "control"))
		p->control = fd;
	else if (!strcmp(name, "targets"))
		p->targets = fd;
	else if (!strcmp(name, "counters"))
		p->counters = fd;
	else if (!strncmp(name, "ring_", 5) && p->n_rings < RECORD_MAX_RINGS)
		p->rings[p->n_rings++] = fd;
	else
		for (unsigned i = 0;; i++) {
			if (i == ARRAY_SIZE(p->others)) {
				close(fd);
				return -E2BIG;
			}
			if (p->others[i] < 0) {
				p->others[i] = fd;
				break;
			}
		}
	return 0;
}

static int copy_fd(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy < 0 ? -errno : copy;
}

/* Where the functions of a program begin: at its first instruction, and wherever it calls or refers to itself. */
static __u32 find_functions(const struct bpf_insn *in, size_t n, __u32 ret[SUBPROGRAMS_MAX])
{
	__u32 found = 1;

	ret[0] = 0;
	for (size_t i = 0; i < n; i++) {
		bool calls = in[i].code == (BPF_JMP | BPF_CALL) && in[i].src_reg == BPF_PSEUDO_CALL;
		bool refers = in[i].code == (BPF_LD | BPF_IMM | BPF_DW) && in[i].src_reg == BPF_PSEUDO_FUNC;
		__u32 at = (__u32)((int)i + in[i].imm + 1), k;

		if (!calls && !refers)
			continue;
		for (k = found; k > 0 && ret[k - 1] > at; k--)
			;
		if (k > 0 && ret[k - 1] == at)
			continue;
		if (found == SUBPROGRAMS_MAX)
			return 0;
		memmove(&ret[k + 1], &ret[k], (found - k) * sizeof(ret[0]));
		ret[k] = at;
		found++;
	}
	return found;
}

/* What the kernel was told of a program, as far as it is not in its instructions. */
static int keep_program(const struct bpf_program *program, struct kept_program *ret)
{
	struct bpf_func_info functions[SUBPROGRAMS_MAX];
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info), at[SUBPROGRAMS_MAX];

	if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size) < 0)
		return -errno;
	if (info.nr_func_info > SUBPROGRAMS_MAX || info.func_info_rec_size != sizeof(functions[0]))
		return -EOPNOTSUPP;
	ret->attach_btf_id = info.attach_btf_id;
	info = (struct bpf_prog_info){ .nr_func_info = info.nr_func_info, .func_info_rec_size = info.func_info_rec_size,
				       .func_info = (__u64)(uintptr_t)functions };
	size = sizeof(info);
	if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size) < 0)
		return -errno;
	ret->there = true;
	ret->type = bpf_program__type(program);
	ret->attach_type = bpf_program__expected_attach_type(program);
	ret->n_instructions = bpf_program__insn_cnt(program);
	ret->instructions = malloc(ret->n_instructions * sizeof(ret->instructions[0]));
	if (!ret->instructions)
		return -ENOMEM;
	memcpy(ret->instructions, bpf_program__insns(program), ret->n_instructions * sizeof(ret->instructions[0]));
	/* The kernel gives the types in order, with the places that the functions have after its own changes. */
	ret->n_functions = find_functions(ret->instructions, ret->n_instructions, at);
	if (ret->n_functions != info.nr_func_info || (ret->type == BPF_PROG_TYPE_TRACING && !ret->attach_btf_id))
		return -EOPNOTSUPP;
	for (__u32 i = 0; i < ret->n_functions; i++)
		ret->functions[i] = (struct bpf_func_info){ .insn_off = at[i], .type_id = functions[i].type_id };
	return 0;
}

static int keep_map(const struct bpf_map *map, struct kept_map *ret)
{
	size_t size = 0;
	const void *value = bpf_map__initial_value((struct bpf_map *)map, &size);

	*ret = (struct kept_map){ .type = bpf_map__type(map), .key_size = bpf_map__key_size(map), .value_size = bpf_map__value_size(map),
				  .max_entries = bpf_map__max_entries(map), .flags = bpf_map__map_flags(map), .fd = bpf_map__fd(map) };
	strncpy(ret->name, bpf_map__name(map), sizeof(ret->name) - 1);
	if (!value)
		return 0;
	ret->value = malloc(size);
	if (!ret->value)
		return -ENOMEM;
	memcpy(ret->value, value, size);
	return size == ret->value_size ? 0 : -EOPNOTSUPP;
}

/* Keeps what was loaded. Without success the next capture is loaded by libbpf again. */
static void keep(struct program_cache *c, const struct tfprofd_bpf *skel, int attach_type, unsigned kinds)
{
	const struct bpf_map *map;
	int r = 0;

	forget(c);
	c->attach_type = attach_type;
	c->kinds = kinds;
	bpf_object__for_each_map(map, skel->obj) {
		if (!bpf_map__autocreate(map))
			continue;
		if (c->n_maps == MAPS_MAX)
			r = -E2BIG;
		if (r >= 0)
			r = keep_map(map, &c->maps[c->n_maps++]);
	}
	for (unsigned i = 0; i < PROGRAM_COUNT && r >= 0; i++) {
		const struct bpf_program *program = bpf_object__find_program_by_name(skel->obj, program_facts[i].name);

		if (bpf_program__autoload(program))
			r = keep_program(program, &c->programs[i]);
	}
	if (r >= 0)
		r = c->btf = copy_fd(bpf_object__btf_fd(skel->obj));
	if (r < 0)
		forget(c);
	else
		c->filled = true;
}

/* Sizes the rings that are needed; the others are not made. */
static int size_rings(struct tfprofd_bpf *skel, unsigned n)
{
	struct bpf_map *const rings[RECORD_MAX_RINGS] = {
		skel->maps.ring_0, skel->maps.ring_1, skel->maps.ring_2, skel->maps.ring_3,
		skel->maps.ring_4, skel->maps.ring_5, skel->maps.ring_6, skel->maps.ring_7,
	};
	int r = 0;

	for (unsigned i = 0; i < RECORD_MAX_RINGS && r >= 0; i++)
		r = i < n ? bpf_map__set_max_entries(rings[i], BROKER_RING_BYTES) : bpf_map__set_autocreate(rings[i], false);
	return r;
}

static bool is_socket_map(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(socket_maps); i++)
		if (!strcmp(name, socket_maps[i]))
			return true;
	return false;
}

static bool is_wanted(const struct program_cache *c, enum program i, unsigned kinds)
{
	const struct program_facts *f = &program_facts[i];

	return (f->kind == KIND_COUNT || kinds & KIND_BIT(f->kind)) && !c->verdicts[i].error;
}

/* Leaves out what is not wanted, or not there on this kernel. */
static int choose_programs(const struct program_cache *c, struct tfprofd_bpf *skel, unsigned kinds)
{
	bool there[PROGRAM_COUNT];
	struct bpf_map *map;
	int r = 0;

	for (enum program i = 0; i < PROGRAM_COUNT; i++) {
		const struct program_facts *f = &program_facts[i];

		there[i] = is_wanted(c, i, kinds);
		if (there[i] && f->needs)
			there[i] = (f->unless == PROGRAM_COUNT || !there[f->unless]) && libbpf_find_vmlinux_btf_id(f->needs, BPF_TRACE_RAW_TP) >= 0;
		bpf_program__set_autoload(bpf_object__find_program_by_name(skel->obj, f->name), there[i]);
	}
	bpf_object__for_each_map(map, skel->obj)
		if (r >= 0 && is_socket_map(bpf_map__name(map)))
			r = bpf_map__set_autocreate(map, kinds & KIND_BIT(KIND_SOCKETS));
	return r;
}

static int take_loaded(struct tfprofd_bpf *skel, struct programs *ret)
{
	const struct bpf_map *map;
	int r = 0;

	for (unsigned i = 0; i < PROGRAM_COUNT && r >= 0; i++) {
		const struct bpf_program *program = bpf_object__find_program_by_name(skel->obj, program_facts[i].name);

		if (bpf_program__autoload(program))
			r = ret->programs[i] = copy_fd(bpf_program__fd(program));
	}
	if (r >= 0)
		bpf_object__for_each_map(map, skel->obj) {
			if (r < 0 || !bpf_map__autocreate(map))
				continue;
			r = copy_fd(bpf_map__fd(map));
			if (r >= 0)
				r = take_map(ret, bpf_map__name(map), r);
		}
	return r;
}

static int load_by_libbpf(struct program_cache *c, int attach_type, unsigned kinds, struct programs *ret)
{
	int cpus = libbpf_num_possible_cpus(), r = 0;
	struct tfprofd_bpf *skel = cpus < 0 ? NULL : tfprofd_bpf__open();
	uint64_t secret[2];

	if (!skel)
		return cpus < 0 ? cpus : -errno;
	if (getrandom(secret, sizeof(secret), 0) != sizeof(secret))
		r = -EIO;
	memcpy((void *)skel->rodata->socket_secret, secret, sizeof(secret));
	c->secret = (size_t)((const char *)skel->rodata->socket_secret - (const char *)skel->rodata);
	skel->rodata->n_rings = (unsigned)MIN(cpus, RECORD_MAX_RINGS);
	skel->rodata->cpus_per_ring = ((unsigned)cpus + skel->rodata->n_rings - 1) / skel->rodata->n_rings;
	if (attach_type)
		bpf_program__set_expected_attach_type(skel->progs.probe, (enum bpf_attach_type)attach_type);
	if (r >= 0)
		r = size_rings(skel, skel->rodata->n_rings);
	if (r >= 0)
		r = choose_programs(c, skel, kinds);
	if (r >= 0)
		r = tfprofd_bpf__load(skel);
	if (r >= 0)
		r = take_loaded(skel, ret);
	if (r >= 0)
		keep(c, skel, attach_type, kinds);
	tfprofd_bpf__destroy(skel);
	return r;
}

/* Of every capture its own. */
static int renew_secret(const struct program_cache *c)
{
	for (unsigned i = 0; i < c->n_maps; i++)
		if (c->maps[i].value && strstr(c->maps[i].name, ".rodata") && c->secret + 16 <= c->maps[i].value_size)
			return getrandom((char *)c->maps[i].value + c->secret, 16, 0) == 16 ? 0 : -EIO;
	return -ENOENT;
}

static int make_map(const struct kept_map *kept)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = kept->flags);
	__u32 zero = 0;
	int fd, r = 0;

	fd = bpf_map_create(kept->type, kept->name, kept->key_size, kept->value_size, kept->max_entries, &options);
	if (fd < 0)
		return -errno;
	/* The verifier relies on what cannot change any more. */
	if (kept->value && (bpf_map_update_elem(fd, &zero, kept->value, BPF_ANY) < 0 || bpf_map_freeze(fd) < 0))
		r = -errno;
	if (r < 0)
		close(fd);
	return r < 0 ? r : fd;
}

/* Loads a program whose instructions name the maps of now instead of those that it was kept with. */
static int make_program(const struct program_cache *c, const struct kept_program *kept, const char *name, const int fds[MAPS_MAX])
{
	_cleanup_free_ struct bpf_insn *in = malloc(kept->n_instructions * sizeof(in[0]));
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = (enum bpf_attach_type)kept->attach_type,
		    .attach_btf_id = kept->attach_btf_id, .prog_btf_fd = (__u32)c->btf, .func_info = kept->functions,
		    .func_info_cnt = kept->n_functions, .func_info_rec_size = sizeof(kept->functions[0]));
	int fd;

	if (!in)
		return -ENOMEM;
	memcpy(in, kept->instructions, kept->n_instructions * sizeof(in[0]));
	for (size_t i = 0; i + 1 < kept->n_instructions; i++) {
		unsigned k = 0;

		if (in[i].code != (BPF_LD | BPF_IMM | BPF_DW))
			continue;
		if (in[i].src_reg == BPF_PSEUDO_MAP_FD || in[i].src_reg == BPF_PSEUDO_MAP_VALUE) {
			while (k < c->n_maps && c->maps[k].fd != in[i].imm)
				k++;
			if (k == c->n_maps)
				return -EBADMSG;
			in[i].imm = fds[k];
		}
		i++; /* it takes two */
	}
	fd = bpf_prog_load(kept->type, name, "GPL", in, kept->n_instructions, &options);
	return fd < 0 ? -errno : fd;
}

/* The verifier takes most of the time: programs are loaded side by side. */
struct loading {
	const struct program_cache *cache;
	const int *fds; /* of the maps */
	struct programs *programs;
	unsigned next, n; /* the next one in load_order that nobody has taken yet */
	unsigned kinds;
	int error;
};

static void *load_programs(void *data)
{
	struct loading *l = data;
	unsigned i;

	while ((i = __atomic_fetch_add(&l->next, 1, __ATOMIC_RELAXED)) < l->n) {
		const struct kept_program *kept = &l->cache->programs[load_order[i]];
		int r = 0;

		if (kept->there && is_wanted(l->cache, load_order[i], l->kinds))
			r = l->programs->programs[load_order[i]] = make_program(l->cache, kept, program_facts[load_order[i]].name, l->fds);
		if (r < 0)
			__atomic_store_n(&l->error, r, __ATOMIC_RELAXED);
	}
	return NULL;
}

static int load_all(struct loading *l)
{
	pthread_t threads[LOADERS - 1];
	unsigned n = 0;

	while (n < ARRAY_SIZE(threads) && pthread_create(&threads[n], NULL, load_programs, l) == 0)
		n++;
	load_programs(l);
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	return l->error;
}

static int load_kept(const struct program_cache *c, unsigned kinds, struct programs *ret)
{
	bool sockets = kinds & KIND_BIT(KIND_SOCKETS);
	int fds[MAPS_MAX], r = sockets ? renew_secret(c) : 0;

	for (unsigned i = 0; i < c->n_maps && r >= 0; i++) {
		fds[i] = -1;
		if (!sockets && is_socket_map(c->maps[i].name))
			continue;
		r = fds[i] = make_map(&c->maps[i]);
		if (r >= 0)
			r = take_map(ret, c->maps[i].name, fds[i]);
	}
	return r < 0 ? r : load_all(&(struct loading){ .cache = c, .fds = fds, .programs = ret, .n = PROGRAM_COUNT, .kinds = kinds });
}

/* What is kept of more programs serves for fewer. */
static bool is_kept(const struct program_cache *c, int attach_type, unsigned kinds)
{
	return c->filled && c->attach_type == attach_type && !(kinds & ~c->kinds);
}

static int load(struct program_cache *c, int attach_type, unsigned kinds, struct programs *ret)
{
	int r = 0;

	programs_init(ret);
	if (is_kept(c, attach_type, kinds)) {
		r = load_kept(c, kinds, ret);
		if (r < 0) {
			/* Not for what was kept of them, perhaps. */
			programs_done(ret);
			programs_init(ret);
			forget(c);
		}
	}
	if (!is_kept(c, attach_type, kinds))
		r = load_by_libbpf(c, attach_type, kinds, ret);
	if (r < 0)
		programs_done(ret);
	ret->kinds = kinds;
	return r;
}

/* Reports what the kernel has against the programs: the last sentence of each, and everything in the file. */
static void report_refused(const struct program_cache *c)
{
	int fd = c->log_directory < 0 ? -1 : openat(c->log_directory, PROGRAMS_LOG, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

	for (enum program i = 0; i < PROGRAM_COUNT; i++) {
		const struct program_verdict *v = &c->verdicts[i];

		if (!v->error)
			continue;
		log_warning("the kernel refused the BPF program %s: %s (%s)", program_facts[i].name, v->reason, strerror(-v->error));
		if (fd >= 0)
			dprintf(fd, "%s: %s (%s)\n%s\n", program_facts[i].name, v->reason, strerror(-v->error), v->log ?: "");
	}
	safe_close(fd);
}

/* Finds out which programs the kernel refuses, and what can be left out with them. -ENOMEM. */
static int examine(struct program_cache *c, int attach_type)
{
	int r = programs_examine(attach_type, c->verdicts);

	if (r <= 0)
		return r;
	c->refuses = true;
	for (enum program i = 0; i < PROGRAM_COUNT; i++)
		if (c->verdicts[i].error && program_facts[i].kind != KIND_COUNT && !program_facts[i].is_extra)
			c->refused_kinds |= KIND_BIT(program_facts[i].kind);
	report_refused(c);
	return 0;
}

/* The program without which there is no capture and that the kernel refuses; PROGRAM_COUNT: none. */
static enum program find_refused(const struct program_cache *c)
{
	enum program i = 0;

	while (i < PROGRAM_COUNT && !(c->verdicts[i].error && program_facts[i].kind == KIND_COUNT))
		i++;
	return i;
}

static int load_or_examine(struct program_cache *c, int attach_type, unsigned kinds, struct programs *ret, char *ret_reason, size_t size)
{
	enum program refused;
	int r;

	if (find_refused(c) == PROGRAM_COUNT) {
		r = load(c, attach_type, kinds & ~c->refused_kinds, ret);
		if (r >= 0 || r == -ENOMEM || r == -EMFILE || r == -ENFILE || c->refuses)
			return r;
		if (examine(c, attach_type) < 0 || !c->refuses)
			return r;
	}
	refused = find_refused(c);
	if (refused == PROGRAM_COUNT)
		return load(c, attach_type, kinds & ~c->refused_kinds, ret);
	snprintf(ret_reason, size, "the kernel refused the BPF program %s: %s", program_facts[refused].name, c->verdicts[refused].reason);
	return c->verdicts[refused].error == -EPERM ? -EPERM : -EOPNOTSUPP;
}

int programs_load(struct program_cache *c, int attach_type, unsigned kinds, struct programs *ret, char *ret_reason, size_t size)
{
	int r;

	*ret_reason = 0;
	pthread_mutex_lock(&c->lock);
	r = load_or_examine(c, attach_type, kinds & PROGRAM_KINDS, ret, ret_reason, size);
	pthread_mutex_unlock(&c->lock);
	if (r < 0 && !*ret_reason)
		snprintf(ret_reason, size, "%s", r == -EPERM  ? "loading BPF programs is not permitted here" :
						 r == -ENOMEM ? "no memory for the ring buffers" :
								"the BPF programs cannot be loaded");
	return r;
}

bool programs_refused(struct program_cache *c, const struct program_verdict **ret)
{
	bool refuses;

	pthread_mutex_lock(&c->lock);
	refuses = c->refuses;
	pthread_mutex_unlock(&c->lock);
	*ret = c->verdicts;
	return refuses;
}
