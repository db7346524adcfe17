#include "daemon/plan/plan.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "include/record_types.h"
#include "lib/base/macro.h"
#include "lib/elf/image.h"
#include "lib/elf/symbols.h"

#define SITES_MAX 256
#define CODE_MAX (64u << 10)
#define CACHE_FILES 128

struct planner {
	struct plan *plan;
	const struct elf_image *image;
	uint8_t *code;
};

static uint64_t argument_mask(const struct probe_spec *spec)
{
	uint64_t mask = 0;
	const unsigned used[] = { spec->value.argument, spec->value2.argument, spec->tag };

	for (unsigned i = 0; i < ARRAY_SIZE(used); i++)
		if (used[i] != ARGUMENT_NONE)
			mask |= 1u << (used[i] - 1);
	return mask;
}

static int on_symbol(const struct symbol_match *match, void *data)
{
	struct planner *p = data;
	const struct probe_spec *spec = &p->plan->pack->probes[match->pattern];
	struct plan_site *site;
	struct site choice;
	size_t size = 0;
	int r;

	/* name.cold, .part, .isra: a compiler's piece or variant of a function, which has other arguments. */
	if (strchr(match->name, '.'))
		return 0;
	if (p->plan->n_sites >= SITES_MAX)
		return -E2BIG;
	r = elf_image_read_code(p->image, match->offset, p->code, MIN(match->size, CODE_MAX), &size);
	if (r < 0)
		return r;
	if (site_choose(p->code, size, argument_mask(spec), &choice) == SITE_REFUSED)
		return 0;
	site = &p->plan->sites[p->plan->n_sites++];
	*site = (struct plan_site){
		.offset = match->offset + choice.offset,
		.stack_offset = choice.stack_offset,
		.class = choice.class,
		.spec = (unsigned)match->pattern,
	};
	return 0;
}

int plan_new(int fd, const struct probe_pack *pack, struct plan **ret, const char **ret_reason)
{
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	_cleanup_free_ struct symbol_pattern *patterns = NULL;
	_cleanup_free_ uint8_t *code = NULL;
	struct planner planner = {};
	struct plan *plan;
	int r;

	r = elf_image_open(fd, &image, ret_reason);
	if (r < 0)
		return r;
	patterns = calloc(pack->n_probes, sizeof(patterns[0]));
	code = malloc(CODE_MAX);
	plan = calloc(1, sizeof(*plan));
	if (plan)
		plan->references = 1;
	if (plan)
		plan->sites = calloc(SITES_MAX, sizeof(plan->sites[0]));
	if (!patterns || !code || !plan || !plan->sites) {
		plan_unref(plan);
		*ret_reason = "out of memory";
		return -ENOMEM;
	}
	for (unsigned i = 0; i < pack->n_probes; i++)
		patterns[i].text = pack->probes[i].symbol;
	plan->pack = pack;
	snprintf(plan->build_id, sizeof(plan->build_id), "%s", elf_image_build_id(image));
	planner = (struct planner){ .plan = plan, .image = image, .code = code };
	*ret_reason = "too many functions match";
	r = elf_symbols_match(image, patterns, pack->n_probes, on_symbol, &planner, ret_reason);
	if (r < 0) {
		plan_unref(plan);
		return r;
	}
	*ret = plan;
	return 0;
}

struct plan *plan_unref(struct plan *plan)
{
	if (!plan || __atomic_sub_fetch(&plan->references, 1, __ATOMIC_ACQ_REL))
		return NULL;
	free(plan->sites);
	free(plan);
	return NULL;
}

bool plan_holds_runtime(const struct plan *plan)
{
	for (unsigned i = 0; i < plan->n_sites; i++) {
		enum role role = plan->pack->probes[plan->sites[i].spec].role;

		if (role == ROLE_RUN_BEGIN || role == ROLE_OP_BEGIN)
			return true;
	}
	return false;
}

uint64_t plan_cookie(const struct plan *plan, const struct plan_site *site, unsigned target)
{
	const struct probe_spec *spec = &plan->pack->probes[site->spec];
	uint64_t cookie = site->spec | (uint64_t)target << 8;

	cookie |= (uint64_t)spec->value.argument << 16 | (uint64_t)spec->tag << 19 | (uint64_t)spec->value2.argument << 22;
	cookie |= (uint64_t)spec->action << 25;
	if (spec->value.deref)
		cookie |= COOKIE_DEREF;
	if (spec->value.deref > 1)
		cookie |= COOKIE_DEREF_AGAIN;
	if (spec->value2.deref)
		cookie |= COOKIE_DEREF2;
	cookie |= (uint64_t)spec->value.offset << 32 | (uint64_t)spec->value2.offset << 44;
	return cookie | (uint64_t)(site->stack_offset / 8) << 56;
}

struct cached {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec changed;
	const struct probe_pack *pack;
	struct plan *plan;
	uint64_t used; /* the larger the later */
};

struct plan_cache {
	pthread_mutex_t lock;
	struct cached files[CACHE_FILES];
	uint64_t clock;
};

int plan_cache_new(struct plan_cache **ret)
{
	struct plan_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return -ENOMEM;
	pthread_mutex_init(&cache->lock, NULL);
	*ret = cache;
	return 0;
}

struct plan_cache *plan_cache_free(struct plan_cache *cache)
{
	if (!cache)
		return NULL;
	for (unsigned i = 0; i < CACHE_FILES; i++)
		plan_unref(cache->files[i].plan);
	pthread_mutex_destroy(&cache->lock);
	free(cache);
	return NULL;
}

static bool is_same_file(const struct cached *f, const struct stat *st)
{
	return f->device == st->st_dev && f->inode == st->st_ino && f->size == st->st_size &&
	       f->changed.tv_sec == st->st_ctim.tv_sec && f->changed.tv_nsec == st->st_ctim.tv_nsec;
}

/* Under the lock: the plan with a reference for the caller, NULL: not there. */
static struct plan *find(struct plan_cache *cache, const struct stat *st, const struct probe_pack *pack)
{
	for (unsigned i = 0; i < CACHE_FILES; i++) {
		struct cached *f = &cache->files[i];

		if (!f->plan || f->pack != pack || !is_same_file(f, st))
			continue;
		f->used = ++cache->clock;
		__atomic_add_fetch(&f->plan->references, 1, __ATOMIC_RELAXED);
		return f->plan;
	}
	return NULL;
}

/* Under the lock: keeps a reference, in the place of the plan that was used least lately. */
static void keep(struct plan_cache *cache, const struct stat *st, struct plan *plan)
{
	struct cached *slot = &cache->files[0];

	for (unsigned i = 1; i < CACHE_FILES; i++)
		if (cache->files[i].used < slot->used)
			slot = &cache->files[i];
	plan_unref(slot->plan);
	__atomic_add_fetch(&plan->references, 1, __ATOMIC_RELAXED);
	*slot = (struct cached){ .device = st->st_dev, .inode = st->st_ino, .size = st->st_size, .changed = st->st_ctim,
				 .pack = plan->pack, .plan = plan, .used = ++cache->clock };
}

int plan_cache_get(struct plan_cache *cache, int fd, const struct probe_pack *pack, struct plan **ret, const char **ret_reason)
{
	struct plan *plan, *other;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	pthread_mutex_lock(&cache->lock);
	plan = find(cache, &st, pack);
	pthread_mutex_unlock(&cache->lock);
	if (!plan) {
		r = plan_new(fd, pack, &plan, ret_reason);
		if (r < 0)
			return r;
		pthread_mutex_lock(&cache->lock);
		other = find(cache, &st, pack);
		if (!other)
			keep(cache, &st, plan);
		pthread_mutex_unlock(&cache->lock);
		plan_unref(other);
	}
	*ret = plan;
	return 0;
}
