/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/interpreter.h"

#include <errno.h>

#include "lib/base/log.h"
#include "lib/base/macro.h"

/* What is added to addresses in the file; -EINVAL: the mapping is not one of its code. */
static int find_bias(const struct mapped_file *file, uint64_t *ret)
{
	for (unsigned i = 0; i < file->ranges.n; i++) {
		const struct code_range *r = &file->ranges.range[i];

		/* A mapping begins with a whole page. */
		if (file->offset < r->end && file->offset + 4096 > r->start) {
			*ret = file->start - file->offset + r->start - r->address;
			return 0;
		}
	}
	return -EINVAL;
}

/* Where the evaluator is, and all code: from its first range to the last one. */
static void place_code(const struct code_ranges *ranges, const struct plan_site *site,
		       uint64_t bias, struct record_interpreter *in)
{
	in->all_code = UINT64_MAX;
	for (unsigned i = 0; i < ranges->n; i++) {
		const struct code_range *r = &ranges->range[i];

		if (site->function >= r->start && site->function < r->end)
			in->evaluator = bias + r->address + site->function - r->start;
		in->all_code = MIN(in->all_code, bias + r->address);
		in->all_code_end = MAX(in->all_code_end, bias + r->address + r->end - r->start);
	}
	in->evaluator_end = in->evaluator + site->size;
}

static bool is_data(const struct code_ranges *ranges, uint64_t address)
{
	for (unsigned i = 0; i < ranges->n_data; i++) {
		const struct code_range *r = &ranges->data[i];

		if (address - r->address < r->end - r->start)
			return true;
	}
	return false;
}

int interpreter_add(const struct mapped_file *file, const struct plan_site *site,
		    struct attachment *attachment, unsigned target)
{
	const struct pack *pack = file->plan->packs->owners[site->spec];
	struct record_interpreter in = {};
	uint64_t bias;
	int r;

	if (!pack->script || !site->size || site->size > UINT32_MAX ||
	    !code_ranges_contain(&file->ranges, site->function) ||
	    !code_ranges_contain(&file->ranges, site->function + site->size - 1) ||
	    !is_data(&file->ranges, site->objects[OBJECT_RUNTIME]) ||
	    !is_data(&file->ranges, site->objects[OBJECT_CODE_TYPE]) ||
	    find_bias(file, &bias) < 0) {
		log_warning(
			"process %d: the objects of %s are not in its file: stacks have no functions of scripts",
			file->pid, pack->name);
		return 0;
	}
	in.runtime = bias + site->objects[OBJECT_RUNTIME];
	in.code_type = bias + site->objects[OBJECT_CODE_TYPE];
	place_code(&file->ranges, site, bias, &in);
	in.layout = *pack->script;
	r = attachment_add_interpreter(attachment, target, &in);
	return r == -EOPNOTSUPP ? 0 : r;
}
