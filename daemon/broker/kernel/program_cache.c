/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/kernel/program_cache.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>

#include "bpf/tfprofd.skel.h"
#include "daemon/broker/kernel/kept_programs.h"
#include "daemon/broker/kernel/libbpf_log.h"
#include "daemon/broker/limits.h"
#include "lib/base/log.h"
#include "lib/base/loop.h"
#include "lib/base/macro.h"

struct program_cache {
	pthread_mutex_t lock;
	int log_directory;
	/* The kernel refuses some of them: the verdicts show which. */
	bool refuses;
	unsigned refused_kinds;
	struct program_verdict verdicts[PROGRAM_COUNT];
	struct kept_programs *kept;
	/* Loaded for the next capture. */
	struct programs ready;
	int ready_type;
	uint64_t ready_until; /* 0: there are none */
};

int program_cache_new(int log_directory, struct program_cache **ret)
{
	struct program_cache *c = calloc(1, sizeof(*c));

	if (!c || kept_programs_new(&c->kept) < 0) {
		free(c);
		return -ENOMEM;
	}
	c->log_directory = log_directory;
	programs_init(&c->ready);
	pthread_mutex_init(&c->lock, NULL);
	*ret = c;
	return 0;
}

struct program_cache *program_cache_free(struct program_cache *c)
{
	if (!c)
		return NULL;
	programs_done(&c->ready);
	kept_programs_free(c->kept);
	program_verdicts_done(c->verdicts);
	pthread_mutex_destroy(&c->lock);
	free(c);
	return NULL;
}

static int copy_fd(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy < 0 ? -errno : copy;
}

/* Sizes the rings that are needed; the others are not created. */
static int size_rings(struct tfprofd_bpf *skel, unsigned n)
{
	struct bpf_map *const rings[RECORD_CPU_RINGS] = {
		skel->maps.ring_0, skel->maps.ring_1, skel->maps.ring_2, skel->maps.ring_3,
		skel->maps.ring_4, skel->maps.ring_5, skel->maps.ring_6, skel->maps.ring_7,
	};
	int r = bpf_map__set_max_entries(skel->maps.spare_ring, BROKER_SPARE_RING_BYTES);

	for (unsigned i = 0; i < RECORD_CPU_RINGS && r >= 0; i++)
		r = i < n ? bpf_map__set_max_entries(rings[i], BROKER_RING_BYTES)
			  : bpf_map__set_autocreate(rings[i], false);
	return r;
}

/* Leaves out programs that are not wanted, or that this kernel has nothing to attach to. */
static int choose_programs(const struct program_cache *c, struct tfprofd_bpf *skel, unsigned kinds)
{
	struct bpf_map *map;
	uint32_t there = 0;
	int r = 0;

	for (enum program i = 0; i < PROGRAM_COUNT; i++) {
		const struct program_facts *f = &program_facts[i];
		bool is_there = program_is_of_kinds(i, kinds) && !c->verdicts[i].error &&
				(!f->with || f->with & there) && !(f->unless & there) &&
				(!f->needs || program_is_supported(i));

		there |= (uint32_t)is_there << i;
		bpf_program__set_autoload(bpf_object__find_program_by_name(skel->obj, f->name),
					  is_there);
	}
	bpf_object__for_each_map (map, skel->obj)
		if (r >= 0 && !program_map_is_of_kinds(bpf_map__name(map), kinds))
			r = bpf_map__set_autocreate(map, false);
	return r;
}

static int take_loaded(struct tfprofd_bpf *skel, struct programs *ret)
{
	const struct bpf_map *map;
	int r = 0;

	for (unsigned i = 0; i < PROGRAM_COUNT && r >= 0; i++) {
		const struct bpf_program *program =
			bpf_object__find_program_by_name(skel->obj, program_facts[i].name);

		if (bpf_program__autoload(program))
			r = ret->programs[i] = copy_fd(bpf_program__fd(program));
	}
	if (r >= 0)
		bpf_object__for_each_map (map, skel->obj) {
			if (r < 0 || !bpf_map__autocreate(map))
				continue;
			r = copy_fd(bpf_map__fd(map));
			if (r >= 0)
				r = programs_take_map(ret, bpf_map__name(map), r);
		}
	return r;
}

/* As tfprofd_bpf__load(); libbpf's message about a failure is shown with --verbose. */
static int load_object(struct tfprofd_bpf *skel)
{
	_cleanup_free_ char *log = NULL;
	char reason[128];
	int r = libbpf_log_begin();

	if (r < 0)
		return r;
	r = tfprofd_bpf__load(skel);
	log = libbpf_log_take();
	if (r < 0 && log) {
		libbpf_log_reason(log, reason, sizeof(reason));
		log_debug("libbpf cannot load the programs: %s (%s)", reason, strerror(-r));
	}
	return r;
}

unsigned programs_ring_count(void)
{
	return (unsigned)MIN(MAX(libbpf_num_possible_cpus(), 1), RECORD_CPU_RINGS);
}

/* Of one load by libbpf: each program and map twice, and what libbpf opens to examine the kernel.
 */
#define LOAD_FILES (2 * (sizeof(struct programs) / sizeof(int)) + 8)

/*
 * Without free descriptors libbpf concludes that the kernel lacks features, keeps that conclusion
 * until the process ends, and the load fails with an error that states something else. Returns
 * -EMFILE or -ENFILE if too few are free.
 */
static int find_room(void)
{
	int fds[LOAD_FILES], r = 0;
	size_t n = 0;

	while (n < LOAD_FILES && r >= 0) {
		r = eventfd(0, EFD_CLOEXEC);
		if (r >= 0)
			fds[n++] = r;
		else
			r = -errno;
	}
	while (n)
		safe_close(fds[--n]);
	return r < 0 ? r : 0;
}

static int load_by_libbpf(struct program_cache *c, int attach_type, unsigned kinds,
			  struct programs *ret)
{
	int cpus = libbpf_num_possible_cpus(), r = 0;
	struct tfprofd_bpf *skel = cpus < 0 ? NULL : tfprofd_bpf__open();
	uint64_t secret[2];

	if (!skel)
		return cpus < 0 ? cpus : -errno;
	if (getrandom(secret, sizeof(secret), 0) != sizeof(secret))
		r = -EIO;
	memcpy((void *)skel->rodata->socket_secret, secret, sizeof(secret));
	skel->rodata->n_rings = programs_ring_count();
	skel->rodata->cpus_per_ring =
		((unsigned)cpus + skel->rodata->n_rings - 1) / skel->rodata->n_rings;
	if (attach_type) {
		bpf_program__set_expected_attach_type(skel->progs.probe,
						      (enum bpf_attach_type)attach_type);
		bpf_program__set_expected_attach_type(skel->progs.on_plaintext,
						      (enum bpf_attach_type)attach_type);
	}
	if (r >= 0)
		r = size_rings(skel, skel->rodata->n_rings);
	if (r >= 0)
		r = choose_programs(c, skel, kinds);
	if (r >= 0)
		r = load_object(skel);
	if (r >= 0)
		r = take_loaded(skel, ret);
	if (r >= 0)
		kept_programs_fill(c->kept, skel->obj, attach_type, kinds,
				   (size_t)((const char *)skel->rodata->socket_secret -
					    (const char *)skel->rodata));
	tfprofd_bpf__destroy(skel);
	return r;
}

static void drop_ready(struct program_cache *c)
{
	programs_done(&c->ready);
	programs_init(&c->ready);
	c->ready_until = 0;
}

static bool is_ready(const struct program_cache *c, int attach_type, unsigned kinds)
{
	return c->ready_until && c->ready_type == attach_type && c->ready.kinds == kinds;
}

static int load(struct program_cache *c, int attach_type, unsigned kinds, struct programs *ret)
{
	int r = 0;

	if (is_ready(c, attach_type, kinds)) {
		*ret = c->ready;
		programs_init(&c->ready);
		c->ready_until = 0;
		return 0;
	}
	/* Its descriptors and rings may be what this one needs. */
	drop_ready(c);
	programs_init(ret);
	if (kept_programs_serve(c->kept, attach_type, kinds)) {
		r = kept_programs_load(c->kept, kinds, ret);
		if (r < 0 && !is_out_of_room(r)) {
			/* The kept programs may be the cause: libbpf is tried again. */
			log_debug("cannot load the kept programs: %s", strerror(-r));
			programs_done(ret);
			programs_init(ret);
			kept_programs_forget(c->kept);
		}
	}
	if (!kept_programs_serve(c->kept, attach_type, kinds)) {
		r = find_room();
		if (r >= 0)
			r = load_by_libbpf(c, attach_type, kinds, ret);
		/* Clients may have connected meanwhile. */
		if (r < 0)
			r = find_room() ?: r;
	}
	if (r < 0)
		programs_done(ret);
	ret->kinds = kinds;
	return r;
}

/* Logs why the kernel refuses programs: the last line for each, and everything in the file. */
static void report_refused(const struct program_cache *c)
{
	int fd = c->log_directory < 0
			 ? -1
			 : openat(c->log_directory, PROGRAMS_LOG,
				  O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

	for (enum program i = 0; i < PROGRAM_COUNT; i++) {
		const struct program_verdict *v = &c->verdicts[i];

		if (!v->error)
			continue;
		log_warning("the kernel refused the BPF program %s: %s (%s)", program_facts[i].name,
			    v->reason, strerror(-v->error));
		if (fd >= 0)
			dprintf(fd, "%s: %s (%s)\n%s\n", program_facts[i].name, v->reason,
				strerror(-v->error), v->log ?: "");
	}
	safe_close(fd);
}

/* The programs that the kernel has a place for, and takes. */
static uint32_t find_usable(const struct program_cache *c)
{
	uint32_t ret = 0;

	for (enum program i = 0; i < PROGRAM_COUNT; i++)
		ret |= (uint32_t)(!c->verdicts[i].error && program_is_supported(i)) << i;
	return ret;
}

/* Whether the kernel refuses a program without which its kind has to be left out: there is no other
 * way to do the same, and this one is wanted. */
static bool is_missed(const struct program_cache *c, enum program program, uint32_t usable)
{
	const struct program_facts *f = &program_facts[program];

	for (enum program i = 0; i < PROGRAM_COUNT; i++)
		if (usable & 1u << i && program_facts[i].unless & 1u << program)
			return false;
	return c->verdicts[program].error && f->kind != KIND_COUNT && !f->is_extra &&
	       (!f->with || f->with & usable) && !(f->unless & usable);
}

/* Finds out which programs the kernel refuses, and which can be left out. */
static int examine(struct program_cache *c, int attach_type)
{
	struct program_verdict verdicts[PROGRAM_COUNT];
	int r = programs_examine(attach_type, verdicts);
	uint32_t usable;

	if (r <= 0)
		return r;
	memcpy(c->verdicts, verdicts, sizeof(verdicts));
	c->refuses = true;
	usable = find_usable(c);
	for (enum program i = 0; i < PROGRAM_COUNT; i++)
		if (is_missed(c, i, usable))
			c->refused_kinds |= KIND_BIT(program_facts[i].kind);
	report_refused(c);
	return 0;
}

/* A program that no capture can do without and that the kernel refuses; PROGRAM_COUNT: none. */
static enum program find_refused(const struct program_cache *c)
{
	enum program i = 0;

	while (i < PROGRAM_COUNT && !(c->verdicts[i].error && program_facts[i].kind == KIND_COUNT))
		i++;
	return i;
}

/* Decrypted bytes are those of sockets that are followed. */
static unsigned usable_kinds(const struct program_cache *c, unsigned kinds)
{
	kinds &= ~c->refused_kinds;
	return kinds & KIND_BIT(KIND_SOCKETS) ? kinds : kinds & ~KIND_BIT(KIND_DECRYPTED);
}

static int load_or_examine(struct program_cache *c, int attach_type, unsigned kinds,
			   struct programs *ret, char *ret_reason, size_t size)
{
	enum program refused;
	int r;

	if (find_refused(c) == PROGRAM_COUNT) {
		r = load(c, attach_type, usable_kinds(c, kinds), ret);
		if (r >= 0 || is_out_of_room(r) || c->refuses)
			return r;
		if (examine(c, attach_type) < 0 || !c->refuses)
			return r;
	}
	refused = find_refused(c);
	if (refused == PROGRAM_COUNT)
		return load(c, attach_type, usable_kinds(c, kinds), ret);
	snprintf(ret_reason, size, "the kernel refused the BPF program %s: %s",
		 program_facts[refused].name, c->verdicts[refused].reason);
	return c->verdicts[refused].error == -EPERM ? -EPERM : -EOPNOTSUPP;
}

int programs_load(struct program_cache *c, int attach_type, unsigned kinds, struct programs *ret,
		  char *ret_reason, size_t size)
{
	int r;

	*ret_reason = 0;
	pthread_mutex_lock(&c->lock);
	r = load_or_examine(c, attach_type, kinds & PROGRAM_KINDS, ret, ret_reason, size);
	pthread_mutex_unlock(&c->lock);
	if (r >= 0 || *ret_reason)
		return r;
	if (r == -EPERM || r == -ENOMEM) {
		snprintf(ret_reason, size, "%s",
			 r == -EPERM ? "loading BPF programs is not permitted here"
				     : "no memory for the ring buffers");
		return r;
	}
	snprintf(ret_reason, size, "the BPF programs cannot be loaded (%s)", strerror(-r));
	return r == -EMFILE || r == -ENFILE ? r : -EOPNOTSUPP;
}

static bool load_ready(struct program_cache *c, int attach_type, unsigned kinds)
{
	drop_ready(c);
	if (!kept_programs_serve(c->kept, attach_type, kinds))
		return false;
	if (kept_programs_load(c->kept, kinds, &c->ready) < 0) {
		drop_ready(c);
		return false;
	}
	c->ready.kinds = kinds;
	c->ready_type = attach_type;
	return true;
}

void programs_make_ready(struct program_cache *c, int attach_type, unsigned kinds, uint64_t for_ns)
{
	if (pthread_mutex_trylock(&c->lock))
		return;
	if (is_ready(c, attach_type, kinds) || load_ready(c, attach_type, kinds))
		c->ready_until = loop_now() + for_ns;
	pthread_mutex_unlock(&c->lock);
}

bool programs_drop(struct program_cache *c, uint64_t now_ns)
{
	bool are_ready;

	if (pthread_mutex_trylock(&c->lock))
		return true;
	if (c->ready_until && now_ns >= c->ready_until)
		drop_ready(c);
	are_ready = c->ready_until;
	pthread_mutex_unlock(&c->lock);
	return are_ready;
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
