/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/kernel/kept_programs.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>

#include "lib/base/macro.h"
#include "lib/base/parallel.h"

#define MAPS_MAX 48
#define SUBPROGRAMS_MAX 32

#define LOADERS 4

struct kept_map {
	char name[BPF_OBJ_NAME_LEN];
	enum bpf_map_type type;
	__u32 key_size, value_size, max_entries, flags;
	__u32 key_type, value_type; /* ids in the programs' types */
	int fd;                     /* that the instructions refer to */
	/* Of the only entry, if programs cannot change it; NULL: none. */
	void *value;
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

struct kept_programs {
	bool filled;
	unsigned kinds;
	/* Offset of the secret in the programs' constants. */
	size_t secret;
	int attach_type;
	int btf; /* the programs' types */
	struct kept_map maps[MAPS_MAX];
	unsigned n_maps;
	struct kept_program programs[PROGRAM_COUNT];
};

int kept_programs_new(struct kept_programs **ret)
{
	struct kept_programs *k = calloc(1, sizeof(*k));

	if (!k)
		return -ENOMEM;
	k->btf = -1;
	*ret = k;
	return 0;
}

void kept_programs_forget(struct kept_programs *c)
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

struct kept_programs *kept_programs_free(struct kept_programs *k)
{
	if (k)
		kept_programs_forget(k);
	free(k);
	return NULL;
}

static int copy_fd(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy < 0 ? -errno : copy;
}

/* Where the functions of a program begin: at its first instruction, and at every target of a call
 * or reference within the program. */
static __u32 find_functions(const struct bpf_insn *in, size_t n, __u32 ret[SUBPROGRAMS_MAX])
{
	__u32 found = 1;

	ret[0] = 0;
	for (size_t i = 0; i < n; i++) {
		bool calls = in[i].code == (BPF_JMP | BPF_CALL) && in[i].src_reg == BPF_PSEUDO_CALL;
		bool refers = in[i].code == (BPF_LD | BPF_IMM | BPF_DW) &&
			      in[i].src_reg == BPF_PSEUDO_FUNC;
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

/* Keeps what the kernel needs to load the program besides its instructions. */
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
	info = (struct bpf_prog_info){ .nr_func_info = info.nr_func_info,
				       .func_info_rec_size = info.func_info_rec_size,
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
	memcpy(ret->instructions, bpf_program__insns(program),
	       ret->n_instructions * sizeof(ret->instructions[0]));
	/* The kernel returns the types in order, with the places that the functions have after its
	 * own changes. */
	ret->n_functions = find_functions(ret->instructions, ret->n_instructions, at);
	if (ret->n_functions != info.nr_func_info ||
	    (ret->type == BPF_PROG_TYPE_TRACING && !ret->attach_btf_id))
		return -EOPNOTSUPP;
	for (__u32 i = 0; i < ret->n_functions; i++)
		ret->functions[i] = (struct bpf_func_info){ .insn_off = at[i],
							    .type_id = functions[i].type_id };
	return 0;
}

static int keep_map(const struct bpf_map *map, struct kept_map *ret)
{
	size_t size = 0;
	const void *value = bpf_map__initial_value((struct bpf_map *)map, &size);

	*ret = (struct kept_map){ .type = bpf_map__type(map),
				  .key_size = bpf_map__key_size(map),
				  .value_size = bpf_map__value_size(map),
				  .max_entries = bpf_map__max_entries(map),
				  .flags = bpf_map__map_flags(map),
				  .key_type = bpf_map__btf_key_type_id(map),
				  .value_type = bpf_map__btf_value_type_id(map),
				  .fd = bpf_map__fd(map) };
	strncpy(ret->name, bpf_map__name(map), sizeof(ret->name) - 1);
	if (!value)
		return 0;
	ret->value = malloc(size);
	if (!ret->value)
		return -ENOMEM;
	memcpy(ret->value, value, size);
	return size == ret->value_size ? 0 : -EOPNOTSUPP;
}

void kept_programs_fill(struct kept_programs *c, const struct bpf_object *object, int attach_type,
			unsigned kinds, size_t secret)
{
	const struct bpf_map *map;
	int r = 0;

	kept_programs_forget(c);
	c->secret = secret;
	c->attach_type = attach_type;
	c->kinds = kinds;
	bpf_object__for_each_map (map, object) {
		if (!bpf_map__autocreate(map))
			continue;
		if (c->n_maps == MAPS_MAX)
			r = -E2BIG;
		if (r >= 0)
			r = keep_map(map, &c->maps[c->n_maps++]);
	}
	for (unsigned i = 0; i < PROGRAM_COUNT && r >= 0; i++) {
		const struct bpf_program *program =
			bpf_object__find_program_by_name(object, program_facts[i].name);

		if (bpf_program__autoload(program))
			r = keep_program(program, &c->programs[i]);
	}
	if (r >= 0)
		r = c->btf = copy_fd(bpf_object__btf_fd(object));
	if (r < 0)
		kept_programs_forget(c);
	else
		c->filled = true;
}

/* Every capture has its own. */
static int renew_secret(const struct kept_programs *c)
{
	for (unsigned i = 0; i < c->n_maps; i++)
		if (c->maps[i].value && strstr(c->maps[i].name, ".rodata") &&
		    c->secret + 16 <= c->maps[i].value_size)
			return getrandom((char *)c->maps[i].value + c->secret, 16, 0) == 16 ? 0
											    : -EIO;
	return -ENOENT;
}

static int make_map(const struct kept_map *kept, int btf)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = kept->flags);
	__u32 zero = 0;
	int fd, r = 0;

	/* The kernel makes storage of tasks and sockets only if it knows the types. */
	if (kept->type == BPF_MAP_TYPE_TASK_STORAGE || kept->type == BPF_MAP_TYPE_SK_STORAGE) {
		options.btf_fd = (__u32)btf;
		options.btf_key_type_id = kept->key_type;
		options.btf_value_type_id = kept->value_type;
	}
	fd = bpf_map_create(kept->type, kept->name, kept->key_size, kept->value_size,
			    kept->max_entries, &options);
	if (fd < 0)
		return -errno;
	/* The verifier relies on values that can no longer change. */
	if (kept->value &&
	    (bpf_map_update_elem(fd, &zero, kept->value, BPF_ANY) < 0 || bpf_map_freeze(fd) < 0))
		r = -errno;
	if (r < 0)
		close(fd);
	return r < 0 ? r : fd;
}

/* Loads a program whose instructions refer to the given maps instead of those that it was kept
 * with. */
static int make_program(const struct kept_programs *c, const struct kept_program *kept,
			const char *name, const int fds[MAPS_MAX])
{
	_cleanup_free_ struct bpf_insn *in = malloc(kept->n_instructions * sizeof(in[0]));
	LIBBPF_OPTS(bpf_prog_load_opts, options,
		    .expected_attach_type = (enum bpf_attach_type)kept->attach_type,
		    .attach_btf_id = kept->attach_btf_id, .prog_btf_fd = (__u32)c->btf,
		    .func_info = kept->functions, .func_info_cnt = kept->n_functions,
		    .func_info_rec_size = sizeof(kept->functions[0]));
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
		i++; /* it occupies two */
	}
	fd = bpf_prog_load(kept->type, name, "GPL", in, kept->n_instructions, &options);
	return fd < 0 ? -errno : fd;
}

/* The kernel clears the memory of rings, and the verifier takes most of the time: maps, and then
 * programs, are made in parallel. */
struct loading {
	const struct kept_programs *cache;
	int fds[MAPS_MAX]; /* of the maps; -1: none */
	struct programs *programs;
	enum program order[PROGRAM_COUNT];
	unsigned kinds;
	int (*make)(struct loading *l, unsigned i);
	int error;
};

static int make_nth_map(struct loading *l, unsigned i)
{
	const struct kept_map *kept = &l->cache->maps[i];

	if (!program_map_is_of_kinds(kept->name, l->kinds))
		return 0;
	return l->fds[i] = make_map(kept, l->cache->btf);
}

static int make_nth_program(struct loading *l, unsigned i)
{
	enum program program = l->order[i];
	const struct kept_program *kept = &l->cache->programs[program];

	if (!kept->there || !program_is_of_kinds(program, l->kinds))
		return 0;
	return l->programs->programs[program] =
		       make_program(l->cache, kept, program_facts[program].name, l->fds);
}

static void make_one(unsigned i, void *data)
{
	struct loading *l = data;
	int r = l->make(l, i);

	if (r < 0)
		__atomic_store_n(&l->error, r, __ATOMIC_RELAXED);
}

static int make_all(struct loading *l, int (*make)(struct loading *l, unsigned i), unsigned n)
{
	l->make = make;
	parallel_run(LOADERS, n, make_one, l);
	return l->error;
}

int kept_programs_load(struct kept_programs *c, unsigned kinds, struct programs *ret)
{
	bool sockets = kinds & KIND_BIT(KIND_SOCKETS);
	int r = sockets ? renew_secret(c) : 0;
	struct loading loading = { .cache = c, .programs = ret, .kinds = kinds };

	memset(loading.fds, 0xff, sizeof(loading.fds));
	if (r >= 0)
		r = make_all(&loading, make_nth_map, c->n_maps);
	/* Those that were made, too, if another failed. */
	for (unsigned i = 0; i < c->n_maps; i++) {
		int taken = loading.fds[i] < 0
				    ? 0
				    : programs_take_map(ret, c->maps[i].name, loading.fds[i]);

		r = r < 0 ? r : taken;
	}
	if (r < 0)
		return r;
	programs_load_order(loading.order);
	return make_all(&loading, make_nth_program, PROGRAM_COUNT);
}

bool kept_programs_serve(const struct kept_programs *c, int attach_type, unsigned kinds)
{
	return c->filled && c->attach_type == attach_type && !(kinds & ~c->kinds);
}
