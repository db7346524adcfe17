/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/unwind/code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/capture/unwind/code_file.h"
#include "include/record_types.h"
#include "lib/base/array.h"
#include "lib/base/loop.h"
#include "lib/base/macro.h"
#include "lib/base/search.h"
#include "lib/proc/maps.h"

/* Of all targets; code in others has no rows. */
#define FILES_MAX 1024
#define NO_FILE UINT32_MAX
#define MAPPINGS_MAX 16384
/* A place outside of what is known makes the mappings be read again, not more often than that. */
#define READ_AGAIN_NS 200000000ull
/* Files that are read at a time; the broker reads one of a user after the other. */
#define ASKED_MAX 4

struct mapping {
	uint64_t start, end, offset;
	uint32_t file; /* index; NO_FILE: of no file */
};

struct owner {
	pid_t pid; /* 0: none */
	struct mapping *mappings;
	size_t n, size;
	uint64_t read_ns;
};

struct code {
	struct proxy *proxy;
	struct owner owners[RECORD_MAX_TARGETS];
	struct code_file **files;
	size_t n_files, files_size;
	size_t next;     /* file that may ask first */
	uint64_t n_rows; /* of all files */
};

/* While the mappings of a target are read. */
struct reading {
	struct code *code;
	struct owner *owner;
};

int code_new(struct proxy *proxy, struct code **ret)
{
	struct code *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->proxy = proxy;
	*ret = c;
	return 0;
}

struct code *code_free(struct code *c)
{
	if (!c)
		return NULL;
	for (unsigned i = 0; i < RECORD_MAX_TARGETS; i++)
		free(c->owners[i].mappings);
	for (size_t i = 0; i < c->n_files; i++)
		code_file_free(c->files[i], c->proxy);
	free(c->files);
	free(c);
	return NULL;
}

void code_set_target(struct code *c, unsigned target, pid_t pid)
{
	struct owner *o = &c->owners[target];

	o->pid = pid;
	o->n = 0;
	o->read_ns = 0;
}

static uint32_t find_file(struct code *c, pid_t pid, const struct maps_entry *e)
{
	struct target_file file = {
		.start = e->start, .end = e->end, .device = e->device, .inode = e->inode
	};

	if (!e->inode)
		return NO_FILE;
	for (size_t i = 0; i < c->n_files; i++)
		if (code_file_is(c->files[i], e->device, e->inode)) {
			code_file_set_process(c->files[i], pid, &file);
			return (uint32_t)i;
		}
	if (c->n_files == FILES_MAX ||
	    array_reserve(&c->files, c->n_files, &c->files_size, sizeof(c->files[0]), 1) < 0 ||
	    code_file_new(pid, &file, &c->files[c->n_files]) < 0)
		return NO_FILE;
	return (uint32_t)c->n_files++;
}

static int on_mapping(const struct maps_entry *e, void *data)
{
	struct reading *r = data;
	struct owner *o = r->owner;

	if (!e->executable || o->n == MAPPINGS_MAX)
		return 0;
	if (array_reserve(&o->mappings, o->n, &o->size, sizeof(o->mappings[0]), 1) < 0)
		return -ENOMEM;
	o->mappings[o->n++] = (struct mapping){ .start = e->start,
						.end = e->end,
						.offset = e->offset,
						.file = find_file(r->code, o->pid, e) };
	return 0;
}

/* Of a process that has ended the earlier ones stay. */
static void read_mappings(struct code *c, struct owner *o)
{
	struct broker_message m = { .type = BROKER_MAPS, .pid = (uint32_t)o->pid };
	struct reading reading = { .code = c, .owner = o };
	_cleanup_close_ int maps = -1;
	unsigned n;

	o->read_ns = loop_now();
	if (proxy_call(c->proxy, &m, &maps, &n) < 0)
		return;
	o->n = 0;
	maps_read(maps, on_mapping, &reading);
}

static const struct mapping *find_mapping(const struct owner *o, uint64_t address)
{
	size_t i = SEARCH_FIRST(o->n, k, o->mappings[k].end <= address);

	return i < o->n && o->mappings[i].start <= address ? &o->mappings[i] : NULL;
}

enum walk_code code_find(struct code *c, unsigned target, uint64_t address, struct unwind_row *ret)
{
	struct owner *o = target < RECORD_MAX_TARGETS ? &c->owners[target] : NULL;
	const struct mapping *m;

	if (!o || !o->pid)
		return WALK_NO_CODE;
	m = find_mapping(o, address);
	/* No code is in the first pages, or in the kernel's half. */
	if (!m && address >= 4096 && address < 1ull << 47 &&
	    loop_now() - o->read_ns > READ_AGAIN_NS) {
		read_mappings(c, o);
		m = find_mapping(o, address);
	}
	if (!m)
		return WALK_NO_CODE;
	if (m->file == NO_FILE)
		return WALK_NO_TABLE;
	/* This process can have it. */
	if (code_file_lacks_process(c->files[m->file]) && loop_now() - o->read_ns > READ_AGAIN_NS) {
		read_mappings(c, o);
		m = find_mapping(o, address);
		if (!m || m->file == NO_FILE)
			return WALK_NO_CODE;
	}
	return code_file_find(c->files[m->file], address - m->start + m->offset, ret);
}

bool code_work(struct code *c)
{
	unsigned asked = 0;
	bool news = false;

	for (size_t i = 0; i < c->n_files; i++)
		if (code_file_is_asked(c->files[i])) {
			code_file_take(c->files[i], c->proxy, &c->n_rows);
			asked += code_file_is_asked(c->files[i]);
			news |= !code_file_is_asked(c->files[i]);
		}
	/* In turns: new places of a large file must not keep back the others. */
	for (size_t i = 0; i < c->n_files && asked < ASKED_MAX; i++) {
		struct code_file *f = c->files[c->next++ % c->n_files];

		if (code_file_has_questions(f)) {
			code_file_ask(f, c->proxy);
			asked += code_file_is_asked(f);
			news |= !code_file_is_asked(f);
		}
	}
	return news;
}
