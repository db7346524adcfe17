/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/plan_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/macro.h"
#include "lib/elf/debug.h"
#include "lib/elf/image.h"
#include "lib/elf/lookup.h"
#include "lib/elf/pattern.h"

/* Limits a file of the cache: PLAN_SITES_MAX lines. */
#define TEXT_MAX (1u << 20)
#define SYMBOL_MAX 3000
#define FILE_PREFIX "plan-"

struct cached {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec changed;
	const struct pack_set *packs;
	struct plan *plan;
	uint64_t used; /* the order of last use */
};

struct plan_cache {
	int directory;
	/* One file at a time: some take a lot of memory. */
	pthread_mutex_t lock, planning;
	struct cached files[PLAN_CACHE_FILES];
	uint64_t clock;
};

int plan_cache_new(int directory, struct plan_cache **ret)
{
	struct plan_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return -ENOMEM;
	cache->directory = directory;
	pthread_mutex_init(&cache->lock, NULL);
	pthread_mutex_init(&cache->planning, NULL);
	*ret = cache;
	return 0;
}

struct plan_cache *plan_cache_free(struct plan_cache *cache)
{
	if (!cache)
		return NULL;
	for (unsigned i = 0; i < PLAN_CACHE_FILES; i++)
		plan_unref(cache->files[i].plan);
	pthread_mutex_destroy(&cache->lock);
	pthread_mutex_destroy(&cache->planning);
	free(cache);
	return NULL;
}

static bool is_same_file(const struct cached *f, const struct stat *st)
{
	return f->device == st->st_dev && f->inode == st->st_ino && f->size == st->st_size &&
	       f->changed.tv_sec == st->st_ctim.tv_sec && f->changed.tv_nsec == st->st_ctim.tv_nsec;
}

/* With the lock held: the plan with a reference for the caller, NULL: there is none. */
static struct plan *find(struct plan_cache *cache, const struct stat *st,
			 const struct pack_set *set)
{
	for (unsigned i = 0; i < PLAN_CACHE_FILES; i++) {
		struct cached *f = &cache->files[i];

		if (!f->plan || f->packs != set || !is_same_file(f, st))
			continue;
		f->used = ++cache->clock;
		return plan_ref(f->plan);
	}
	return NULL;
}

/* With the lock held: keeps a reference, in place of the least recently used plan. */
static void keep(struct plan_cache *cache, const struct stat *st, struct plan *plan)
{
	struct cached *slot = &cache->files[0];

	for (unsigned i = 1; i < PLAN_CACHE_FILES; i++)
		if (cache->files[i].used < slot->used)
			slot = &cache->files[i];
	plan_unref(slot->plan);
	*slot = (struct cached){ .device = st->st_dev,
				 .inode = st->st_ino,
				 .size = st->st_size,
				 .changed = st->st_ctim,
				 .packs = plan->packs,
				 .plan = plan_ref(plan),
				 .used = ++cache->clock };
}

static uint64_t hash(uint64_t h, const void *data, size_t size)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < size; i++)
		h = (h ^ p[i]) * 0x100000001b3;
	return h;
}

#define HASH_START 0xcbf29ce484222325

/* What must be the same for a stored plan to be usable: what was looked for in the file. */
static uint64_t pack_digest(const struct pack_set *set)
{
	uint64_t h = hash(HASH_START, TFPROFD_VERSION, sizeof(TFPROFD_VERSION));

	for (unsigned i = 0; i < set->n_rows; i++) {
		const struct probe_row *row = set->rows[i];
		const char *const texts[] = { row->symbol, row->class_name, row->usdt };

		for (unsigned k = 0; k < ARRAY_SIZE(texts); k++)
			h = hash(h, texts[k] ?: "", strlen(texts[k] ?: "") + 1);
		h = hash(h, &row->slot, sizeof(row->slot));
		h = hash(h, &row->slot_from_end, sizeof(row->slot_from_end));
		h = hash(h, &row->derived, sizeof(row->derived));
	}
	return h;
}

static void file_name(const struct stat *st, const struct pack_set *set, char ret[128])
{
	snprintf(ret, 128, FILE_PREFIX "%" PRIx64 "-%" PRIx64 "-%.32s", (uint64_t)st->st_dev,
		 (uint64_t)st->st_ino, set->name);
}

/*
 * The line that identifies the file of a stored plan, and what was looked for; the build-id is
 * informative. A debug file that was installed later may contain more of it.
 */
static void print_head(FILE *f, const struct stat *st, const struct pack_set *set,
		       const char *build_id)
{
	_cleanup_close_ int debug = -1;

	elf_debug_find(build_id, DEBUG_ROOT, &debug);
	fprintf(f,
		"%" PRIx64 " %" PRIx64 " %" PRId64 " %" PRId64 ".%09ld %016" PRIx64
		" build-id:%s debug-file:%d\n",
		(uint64_t)st->st_dev, (uint64_t)st->st_ino, (int64_t)st->st_size,
		(int64_t)st->st_ctim.tv_sec, st->st_ctim.tv_nsec, pack_digest(set), build_id,
		debug >= 0);
}

/* Whether a function that was read from a stored plan can be compared with the file: others are not
 * stored. */
static bool can_be_checked(const struct plan_site *s)
{
	return (s->source == SYMBOL_SYMTAB || s->source == SYMBOL_DYNSYM) && !s->semaphore;
}

static int print_plan(FILE *f, const struct stat *st, const struct plan *plan)
{
	print_head(f, st, plan->packs, plan->build_id);
	for (unsigned i = 0; i < plan->n_sites; i++) {
		const struct plan_site *s = &plan->sites[i];

		/* Searched for again, which is cheap. */
		if (s->source == SYMBOL_USDT || s->source == SYMBOL_TABLE)
			continue;
		if (strlen(s->symbol) > SYMBOL_MAX || strchr(s->symbol, '\n') || !can_be_checked(s))
			return -EINVAL;
		fprintf(f, "%u %u %u %" PRIx64 " %" PRIx64 " %s\n", s->spec, (unsigned)s->source,
			s->index, s->function, s->size, s->symbol);
	}
	return ferror(f) ? -EIO : 0;
}

/* Deletes the oldest plan if there are too many; other files are left alone. */
static void make_room(struct plan_cache *cache)
{
	int copy = openat(cache->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = copy >= 0 ? fdopendir(copy) : NULL;
	char oldest[256] = "";
	struct timespec age = {};
	struct dirent *entry;
	unsigned n = 0;

	if (!directory) {
		safe_close(copy);
		return;
	}
	while ((entry = readdir(directory))) {
		struct stat st;

		if (strncmp(entry->d_name, FILE_PREFIX, strlen(FILE_PREFIX)) ||
		    fstatat(cache->directory, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		n++;
		if (*oldest &&
		    (st.st_mtim.tv_sec > age.tv_sec ||
		     (st.st_mtim.tv_sec == age.tv_sec && st.st_mtim.tv_nsec >= age.tv_nsec)))
			continue;
		snprintf(oldest, sizeof(oldest), "%s", entry->d_name);
		age = st.st_mtim;
	}
	closedir(directory);
	if (n >= PLAN_CACHE_FILES)
		unlinkat(cache->directory, oldest, 0);
}

/* Failure only costs time, when the file is planned the next time. */
static void store(struct plan_cache *cache, const struct stat *st, const struct plan *plan)
{
	_cleanup_close_ int fd = -1;
	char *text = NULL, name[128], temporary[160], end[32];
	size_t size = 0;
	FILE *f;
	bool written;
	int r;

	if (cache->directory < 0)
		return;
	f = open_memstream(&text, &size);
	r = f ? print_plan(f, st, plan) : -ENOMEM;
	if (f && fclose(f))
		r = -ENOMEM;
	if (r < 0 || size > TEXT_MAX - sizeof(end)) {
		free(text);
		return;
	}
	snprintf(end, sizeof(end), "end %016" PRIx64 "\n", hash(HASH_START, text, size));
	file_name(st, plan->packs, name);
	snprintf(temporary, sizeof(temporary), "new-%s", name);
	make_room(cache);
	fd = openat(cache->directory, temporary,
		    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	written = fd >= 0 && write(fd, text, size) == (ssize_t)size &&
		  write(fd, end, strlen(end)) == (ssize_t)strlen(end);
	free(text);
	if (!written || renameat(cache->directory, temporary, cache->directory, name) < 0)
		unlinkat(cache->directory, temporary, 0);
}

/* The stored text without its last line, which must be its digest; NULL: there is none, or it is
 * damaged. */
static char *load_text(struct plan_cache *cache, const char *name)
{
	_cleanup_close_ int fd = openat(cache->directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char *text = NULL, *end;
	uint64_t digest;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
	    st.st_size > TEXT_MAX)
		return NULL;
	text = malloc((size_t)st.st_size + 1);
	if (!text || read(fd, text, (size_t)st.st_size) != st.st_size)
		goto bad;
	text[st.st_size] = 0;
	end = strstr(text, "\nend ");
	if (!end || sscanf(end, "\nend %16" SCNx64, &digest) != 1 ||
	    hash(HASH_START, text, (size_t)(end + 1 - text)) != digest)
		goto bad;
	end[1] = 0;
	return text;
bad:
	free(text);
	return NULL;
}

static int parse_site(char *line, const struct pack_set *set, struct plan_site *ret)
{
	unsigned source;
	int symbol = 0;

	*ret = (struct plan_site){};
	if (sscanf(line, "%u %u %" SCNu32 " %" SCNx64 " %" SCNx64 " %n", &ret->spec, &source,
		   &ret->index, &ret->function, &ret->size, &symbol) < 5 ||
	    !symbol || !line[symbol] || !ret->size || ret->spec >= set->n_rows ||
	    source > SYMBOL_USDT)
		return -EBADMSG;
	ret->source = (enum symbol_source)source;
	ret->symbol = line + symbol;
	return 0;
}

/* No function twice: as from plan_new(), they are in the order of probes, then of offsets. */
static bool comes_after(const struct plan *plan, const struct plan_site *s)
{
	const struct plan_site *last = plan->n_sites ? &plan->sites[plan->n_sites - 1] : NULL;

	return !last || s->spec > last->spec ||
	       (s->spec == last->spec && s->function > last->function);
}

/* Whether the file has that function there, under a name that its probe looks for. */
static bool is_of_file(const struct plan_site *s, const struct pack_set *set,
		       const struct elf_image *image)
{
	struct pattern pattern;
	uint64_t steps = 0;

	return can_be_checked(s) && set->rows[s->spec]->symbol &&
	       pattern_compile(set->rows[s->spec]->symbol, &pattern) >= 0 &&
	       pattern_matches(&pattern, s->symbol, &steps) &&
	       elf_lookup_check(image, s->source, s->index, s->symbol, s->function, s->size) >= 0;
}

/* The plan that was stored for the file, with its sites chosen again; NULL: none, or it does not
 * fit the file. */
static struct plan *load(struct plan_cache *cache, int fd, const struct stat *st,
			 const struct pack_set *set)
{
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	_cleanup_(plan_unrefp) struct plan *plan = NULL;
	_cleanup_free_ char *text = NULL, *head = NULL;
	char name[128], *rest, *line;
	size_t size = 0;
	FILE *f;

	if (cache->directory < 0)
		return NULL;
	file_name(st, set, name);
	text = load_text(cache, name);
	if (!text || elf_image_open(fd, &image, NULL) < 0)
		return NULL;
	f = open_memstream(&head, &size);
	if (!f)
		return NULL;
	print_head(f, st, set, elf_image_build_id(image));
	if (fclose(f) || strncmp(text, head, size) ||
	    plan_make(set, elf_image_build_id(image), &plan) < 0)
		return NULL;
	rest = text + size;
	while ((line = strsep(&rest, "\n")) && *line) {
		struct plan_site site;

		if (parse_site(line, set, &site) < 0 || !comes_after(plan, &site) ||
		    !is_of_file(&site, set, image) || plan_add(plan, image, &site) < 0)
			return NULL;
	}
	return plan_complete(plan, image, NULL) < 0 ? NULL : TAKE_PTR(plan);
}

/* The plan that another thread has made meanwhile, with a reference for the caller; NULL: none. */
static struct plan *find_made(struct plan_cache *cache, const struct stat *st,
			      const struct pack_set *set)
{
	struct plan *plan;

	pthread_mutex_lock(&cache->lock);
	plan = find(cache, st, set);
	pthread_mutex_unlock(&cache->lock);
	return plan;
}

/* Makes the plan of a file that was never seen, unless another thread is doing so. */
static int plan_file(struct plan_cache *cache, int fd, const struct stat *st,
		     const struct pack_set *set, bool alone, struct plan **ret,
		     const char **ret_reason)
{
	int r = 0;

	if (alone)
		pthread_mutex_lock(&cache->planning);
	*ret = find_made(cache, st, set);
	if (!*ret)
		r = plan_new(fd, set, ret, ret_reason);
	if (alone)
		pthread_mutex_unlock(&cache->planning);
	if (r >= 0)
		store(cache, st, *ret);
	return r;
}

int plan_cache_get(struct plan_cache *cache, int fd, const struct pack_set *set, bool alone,
		   struct plan **ret, bool *ret_known, const char **ret_reason)
{
	struct plan *plan, *other;
	bool known = true;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	plan = find_made(cache, &st, set);
	if (!plan) {
		plan = load(cache, fd, &st, set);
		known = plan;
		if (!plan) {
			r = plan_file(cache, fd, &st, set, alone, &plan, ret_reason);
			if (r < 0)
				return r;
		}
		pthread_mutex_lock(&cache->lock);
		other = find(cache, &st, set);
		if (!other)
			keep(cache, &st, plan);
		pthread_mutex_unlock(&cache->lock);
		plan_unref(other);
	}
	if (ret_known)
		*ret_known = known;
	*ret = plan;
	return 0;
}
