/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/modules.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/macro.h"
#include "proto/hlo.pb-c.h"

/* Memory for reading a module, beside twice its size. */
#define ALLOWANCE_BYTES (1u << 20)

/* Unread fields are copied one by one: many small ones would take a multiple of the file's size. */
struct allowance {
	size_t left;
};

static void *allowance_alloc(void *data, size_t size)
{
	struct allowance *allowance = data;

	if (size > allowance->left)
		return NULL;
	allowance->left -= size;
	return malloc(size);
}

static void allowance_free(void *data, void *memory)
{
	free(memory);
}

/* NULL: it cannot be read. To be freed with the same allocator. */
static Xla__HloProto *parse(const void *bytes, size_t size, ProtobufCAllocator *allocator)
{
	Xla__HloProto *proto = xla__hlo_proto__unpack(allocator, size, bytes);

	if (proto && proto->hlo_module)
		return proto;
	if (proto)
		xla__hlo_proto__free_unpacked(proto, allocator);
	return NULL;
}

/* Readers write a module to a file of its name: anything but a plain file name could escape their
 * directory. */
static bool is_file_name(const char *name)
{
	size_t n = 0;

	for (; name[n]; n++)
		if (name[n] <= ' ' || name[n] > '~' || name[n] == '/' || name[n] == '\\')
			return false;
	return n && n <= MODULE_NAME_BYTES && *name != '.';
}

static bool has_id(const struct modules *m, uint64_t id)
{
	for (unsigned i = 0; i < m->n; i++)
		if (m->list[i].id == id)
			return true;
	return false;
}

int modules_add(struct modules *m, const void *bytes, size_t size)
{
	struct allowance allowance = { .left = 2 * size + ALLOWANCE_BYTES };
	ProtobufCAllocator allocator = { .alloc = allowance_alloc,
					 .free = allowance_free,
					 .allocator_data = &allowance };
	struct module *module = &m->list[m->n];
	Xla__HloProto *proto;

	if (m->n == MODULES_MAX || size > MODULES_BYTES_MAX - m->bytes)
		return -ENOBUFS;
	m->bytes += size;
	proto = parse(bytes, size, &allocator);
	if (!proto)
		return -EBADMSG;
	if (!is_file_name(proto->hlo_module->name)) {
		xla__hlo_proto__free_unpacked(proto, &allocator);
		return -EINVAL;
	}
	/* Readers take ids for signed 64-bit numbers. */
	*module = (struct module){ .id = (uint64_t)MAX(proto->hlo_module->id, (int64_t)0),
				   .size = size };
	while (has_id(m, module->id))
		module->id++;
	snprintf(module->name, sizeof(module->name), "%s(%llu)", proto->hlo_module->name,
		 (unsigned long long)module->id);
	xla__hlo_proto__free_unpacked(proto, &allocator);
	module->bytes = malloc(size);
	if (!module->bytes)
		return -ENOMEM;
	memcpy(module->bytes, bytes, size);
	m->n++;
	return 0;
}

void modules_done(struct modules *m)
{
	for (unsigned i = 0; i < m->n; i++)
		free(m->list[i].bytes);
	m->n = 0;
	m->bytes = 0;
}
