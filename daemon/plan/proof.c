/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/proof.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/escape.h"
#include "lib/base/macro.h"

#define MAGIC 0x31706674u

/* The head of the bytes; the sites, the names of operations and the texts follow. */
struct head {
	uint32_t magic, n_sites;
	uint32_t n_names[RECORD_LAYOUTS];
	uint32_t texts; /* bytes; the first and the last one are 0 */
	char build_id[65], version[96];
};

/* Texts are offsets into the last part; 0: none. */
struct proved_site {
	uint64_t function, size, offset, semaphore, note;
	uint64_t objects[ROW_OBJECTS];
	uint32_t spec, source, index, class;
	uint32_t site_offset, stack_offset;
	uint32_t symbol, text, reason;
	uint8_t registers[SITE_ARGUMENTS];
	uint8_t may_repeat, length, slot_known;
};

typedef char operation_name[TABLE_STRING_MAX + 1];

struct texts {
	char *bytes;
	size_t size, at;
};

static size_t texts_size(const struct plan *plan)
{
	size_t size = 2;

	for (unsigned i = 0; i < plan->n_sites; i++) {
		const struct plan_site *s = &plan->sites[i];

		size += strlen(s->symbol) + 1 + strlen(s->site.text) + 1 +
			strlen(s->site.reason ?: "") + 1;
	}
	return size;
}

static uint32_t add_text(struct texts *texts, const char *text)
{
	size_t size = strlen(text ?: ""), at = texts->at;

	if (!size)
		return 0;
	memcpy(texts->bytes + at, text, size + 1);
	texts->at += size + 1;
	return (uint32_t)at;
}

static struct proved_site encode(const struct plan_site *s, struct texts *texts)
{
	bool refused = s->site.class == SITE_REFUSED;
	struct proved_site p = { .function = s->function,
				 .size = s->size,
				 .offset = s->offset,
				 .semaphore = s->semaphore,
				 .note = s->note,
				 .spec = s->spec,
				 .source = s->source,
				 .index = s->index,
				 .class = s->site.class,
				 .slot_known = s->slot_known,
				 .symbol = add_text(texts, s->symbol),
				 .reason = add_text(texts, s->site.reason) };

	memcpy(p.objects, s->objects, sizeof(p.objects));
	if (refused)
		return p;
	p.text = add_text(texts, s->site.text);
	p.site_offset = s->site.offset;
	p.stack_offset = s->site.stack_offset;
	p.may_repeat = s->site.may_repeat;
	p.length = s->site.length;
	memcpy(p.registers, s->site.argument_register, sizeof(p.registers));
	return p;
}

static void write_all(FILE *f, const struct plan *plan, struct texts *texts)
{
	struct head head = { .magic = MAGIC,
			     .n_sites = plan->n_sites,
			     .texts = (uint32_t)texts->size };

	for (unsigned i = 0; i < RECORD_LAYOUTS; i++)
		head.n_names[i] = plan->names[i].n;
	memcpy(head.build_id, plan->build_id, sizeof(head.build_id));
	memcpy(head.version, plan->version, sizeof(head.version));
	fwrite(&head, sizeof(head), 1, f);
	for (unsigned i = 0; i < plan->n_sites; i++) {
		struct proved_site site = encode(&plan->sites[i], texts);

		fwrite(&site, sizeof(site), 1, f);
	}
	for (unsigned i = 0; i < RECORD_LAYOUTS; i++)
		if (plan->names[i].n)
			fwrite(plan->names[i].texts, sizeof(operation_name), plan->names[i].n, f);
	fwrite(texts->bytes, texts->size, 1, f);
}

int proof_write(int fd, const struct plan *plan)
{
	struct texts texts = { .size = texts_size(plan), .at = 1 };
	bool failed;
	FILE *f;
	int copy;

	if (texts.size > PROOF_BYTES_MAX)
		return -E2BIG;
	texts.bytes = calloc(1, texts.size);
	copy = texts.bytes ? dup(fd) : -1;
	f = copy >= 0 ? fdopen(copy, "w") : NULL;
	if (!f) {
		free(texts.bytes);
		safe_close(copy);
		return -ENOMEM;
	}
	write_all(f, plan, &texts);
	free(texts.bytes);
	failed = ferror(f);
	return fclose(f) || failed ? -EIO : 0;
}

static bool is_sound(const struct proved_site *p, const struct pack_set *set)
{
	if (p->spec >= set->n_rows || p->source > SYMBOL_WORD || p->class > SITE_REFUSED ||
	    p->may_repeat > 1 || p->slot_known > 1)
		return false;
	for (unsigned i = 0; i < SITE_ARGUMENTS; i++)
		if (p->registers[i] >= REGISTER_COUNT)
			return false;
	return p->class == SITE_REFUSED ||
	       (p->stack_offset <= COOKIE_STACK_MAX && p->stack_offset % 8 == 0);
}

static void decode(const struct proved_site *p, struct plan_site *ret)
{
	*ret = (struct plan_site){ .spec = p->spec,
				   .source = (enum symbol_source)p->source,
				   .index = p->index,
				   .function = p->function,
				   .size = p->size,
				   .offset = p->offset,
				   .semaphore = p->semaphore,
				   .note = p->note,
				   .slot_known = p->slot_known,
				   .site = { .offset = p->site_offset,
					     .class = (enum site_class)p->class,
					     .stack_offset = p->stack_offset,
					     .may_repeat = p->may_repeat,
					     .length = p->length } };
	memcpy(ret->site.argument_register, p->registers, sizeof(p->registers));
	memcpy(ret->objects, p->objects, sizeof(ret->objects));
}

static int read_exactly(int fd, void *data, size_t size, uint64_t offset)
{
	uint8_t *p = data;

	for (size_t done = 0; done < size;) {
		ssize_t n = pread(fd, p + done, size - done, (off_t)(offset + done));

		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
		done += (size_t)n;
	}
	return 0;
}

struct reader {
	int fd;
	const struct pack_set *set;
	struct head head;
	struct proved_site *sites;
	struct plan *plan;
};

static int read_head(struct reader *r)
{
	uint64_t size = sizeof(r->head);
	struct stat st;
	int error;

	if (fstat(r->fd, &st) < 0)
		return -errno;
	error = read_exactly(r->fd, &r->head, sizeof(r->head), 0);
	if (error < 0)
		return error;
	size += (uint64_t)r->head.n_sites * sizeof(r->sites[0]) + r->head.texts;
	for (unsigned i = 0; i < RECORD_LAYOUTS; i++) {
		size += (uint64_t)r->head.n_names[i] * sizeof(operation_name);
		if (r->head.n_names[i] > PLAN_NAMES_MAX)
			return -EBADMSG;
	}
	r->head.build_id[sizeof(r->head.build_id) - 1] = 0;
	r->head.version[sizeof(r->head.version) - 1] = 0;
	escape_overwrite(r->head.build_id);
	escape_overwrite(r->head.version);
	return r->head.magic == MAGIC && r->head.n_sites <= PLAN_SITES_MAX && r->head.texts >= 2 &&
			       size == (uint64_t)st.st_size && size <= PROOF_BYTES_MAX
		       ? 0
		       : -EBADMSG;
}

static int read_sites(struct reader *r)
{
	size_t n = r->head.n_sites;
	int error;

	r->sites = calloc(MAX(n, (size_t)1), sizeof(r->sites[0]));
	if (!r->sites || plan_make(r->set, r->head.build_id, &r->plan) < 0)
		return -ENOMEM;
	error = read_exactly(r->fd, r->sites, n * sizeof(r->sites[0]), sizeof(r->head));
	if (error < 0)
		return error;
	memcpy(r->plan->version, r->head.version, sizeof(r->plan->version));
	r->plan->sites = calloc(MAX(n, (size_t)1), sizeof(r->plan->sites[0]));
	if (!r->plan->sites)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (!is_sound(&r->sites[i], r->set))
			return -EBADMSG;
		decode(&r->sites[i], &r->plan->sites[i]);
	}
	r->plan->n_sites = r->plan->size = (unsigned)n;
	return 0;
}

/* -EBADMSG, or 0: the string, which has no more bytes than the last part. */
static int find_text(const struct reader *r, uint32_t at, char **ret)
{
	*ret = r->plan->texts + at;
	return at < r->head.texts ? 0 : -EBADMSG;
}

static int read_texts(struct reader *r, uint64_t offset)
{
	struct plan *plan = r->plan;
	int error;

	plan->texts = malloc(r->head.texts);
	if (!plan->texts)
		return -ENOMEM;
	error = read_exactly(r->fd, plan->texts, r->head.texts, offset);
	if (error < 0)
		return error;
	if (plan->texts[0] || plan->texts[r->head.texts - 1])
		return -EBADMSG;
	for (unsigned i = 0; i < plan->n_sites; i++) {
		struct plan_site *s = &plan->sites[i];
		char *instruction, *reason;

		if (find_text(r, r->sites[i].symbol, &s->symbol) < 0 ||
		    find_text(r, r->sites[i].text, &instruction) < 0 ||
		    find_text(r, r->sites[i].reason, &reason) < 0)
			return -EBADMSG;
		snprintf(s->site.text, sizeof(s->site.text), "%s", instruction);
		s->site.reason = s->site.class == SITE_REFUSED && *reason ? reason : NULL;
	}
	return 0;
}

static int read_names(struct reader *r, uint64_t *offset)
{
	for (unsigned i = 0; i < RECORD_LAYOUTS; i++) {
		struct plan_names *names = &r->plan->names[i];
		size_t size = r->head.n_names[i] * sizeof(operation_name);
		int error;

		if (!size)
			continue;
		names->texts = malloc(size);
		if (!names->texts)
			return -ENOMEM;
		error = read_exactly(r->fd, names->texts, size, *offset);
		if (error < 0)
			return error;
		names->n = r->head.n_names[i];
		for (uint32_t k = 0; k < names->n; k++)
			names->texts[k][TABLE_STRING_MAX] = 0;
		*offset += size;
	}
	return 0;
}

static int read_plan(int fd, const struct pack_set *set, bool texts, struct plan **ret)
{
	struct reader r = { .fd = fd, .set = set };
	uint64_t offset;
	int error = read_head(&r);

	if (error >= 0)
		error = read_sites(&r);
	offset = sizeof(r.head) + (uint64_t)r.head.n_sites * sizeof(r.sites[0]);
	if (error >= 0 && texts)
		error = read_names(&r, &offset) ?: read_texts(&r, offset);
	free(r.sites);
	if (error < 0) {
		plan_unref(r.plan);
		return error;
	}
	*ret = r.plan;
	return 0;
}

int proof_read_sites(int fd, const struct pack_set *set, struct plan **ret)
{
	return read_plan(fd, set, false, ret);
}

int proof_read(int fd, const struct pack_set *set, struct plan **ret)
{
	return read_plan(fd, set, true, ret);
}
