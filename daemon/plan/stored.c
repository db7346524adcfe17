/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/stored.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/plan/search.h"
#include "lib/base/macro.h"
#include "lib/elf/image.h"
#include "lib/elf/lookup.h"
#include "lib/elf/pattern.h"

#define SYMBOL_MAX 3000

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
		h = hash(h, &row->class_byte, sizeof(row->class_byte));
		h = hash(h, &row->by_value, sizeof(row->by_value));
		h = hash(h, &row->constant_is, sizeof(row->constant_is));
	}
	return h;
}

/*
 * The line that identifies the file of a stored plan, and what was looked for; the build-id is
 * informative. A debug file that was installed later may contain more of it.
 */
static void print_head(FILE *f, const struct stat *st, bool has_debug, const struct pack_set *set,
		       const char *build_id)
{
	fprintf(f,
		"%" PRIx64 " %" PRIx64 " %" PRId64 " %" PRId64 ".%09ld %016" PRIx64
		" build-id:%s debug-file:%d\n",
		(uint64_t)st->st_dev, (uint64_t)st->st_ino, (int64_t)st->st_size,
		(int64_t)st->st_ctim.tv_sec, st->st_ctim.tv_nsec, pack_digest(set), build_id,
		has_debug);
}

/* Whether a function that was read from a stored plan can be compared with the file: others are not
 * stored. */
static bool can_be_checked(const struct plan_site *s)
{
	return (s->source == SYMBOL_SYMTAB || s->source == SYMBOL_DYNSYM) && !s->semaphore;
}

static int print_plan(FILE *f, const struct stat *st, bool has_debug, const struct plan *plan)
{
	print_head(f, st, has_debug, plan->packs, plan->build_id);
	for (unsigned i = 0; i < plan->n_sites; i++) {
		const struct plan_site *s = &plan->sites[i];

		/* Searched for again, which is cheap. */
		if (s->source == SYMBOL_USDT || s->source == SYMBOL_TABLE ||
		    s->source == SYMBOL_JUMP || s->source == SYMBOL_WORD)
			continue;
		if (strlen(s->symbol) > SYMBOL_MAX || strchr(s->symbol, '\n') || !can_be_checked(s))
			return -EINVAL;
		fprintf(f, "%u %u %u %" PRIx64 " %" PRIx64 " %s\n", s->spec, (unsigned)s->source,
			s->index, s->function, s->size, s->symbol);
	}
	return ferror(f) ? -EIO : 0;
}

static int write_at(int fd, const char *text, size_t size, size_t offset)
{
	ssize_t n = pwrite(fd, text, size, (off_t)offset);

	if (n < 0)
		return -errno;
	return n == (ssize_t)size ? 0 : -ENOSPC;
}

int stored_write(int fd, const struct stat *st, bool has_debug, const struct plan *plan)
{
	char *text = NULL, end[32];
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	int r = f ? print_plan(f, st, has_debug, plan) : -ENOMEM;

	if (f && fclose(f))
		r = -ENOMEM;
	snprintf(end, sizeof(end), "end %016" PRIx64 "\n", hash(HASH_START, text, size));
	if (r >= 0 && size > STORED_BYTES_MAX - sizeof(end))
		r = -E2BIG;
	if (r >= 0)
		r = write_at(fd, text, size, 0);
	if (r >= 0)
		r = write_at(fd, end, strlen(end), size);
	free(text);
	return r;
}

/* The stored text without its last line, which must be its digest; NULL: there is none, or it is
 * damaged. */
static char *load_text(int fd)
{
	char *text = NULL, *end;
	uint64_t digest;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
	    st.st_size > STORED_BYTES_MAX)
		return NULL;
	text = malloc((size_t)st.st_size + 1);
	if (!text || pread(fd, text, (size_t)st.st_size, 0) != st.st_size)
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

struct plan *stored_read(int fd, int file, const struct stat *st, bool has_debug,
			 const struct pack_set *set)
{
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	_cleanup_(plan_unrefp) struct plan *plan = NULL;
	_cleanup_free_ char *text = load_text(fd), *head = NULL;
	char *rest, *line;
	size_t size = 0;
	FILE *f;

	if (!text || elf_image_open(file, &image, NULL) < 0)
		return NULL;
	f = open_memstream(&head, &size);
	if (!f)
		return NULL;
	print_head(f, st, has_debug, set, elf_image_build_id(image));
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
