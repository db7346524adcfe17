/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/interpreter.h"

#include <errno.h>

#include "lib/base/log.h"

/* What is added to addresses in the file, and the range of code that is mapped; -EINVAL: the
 * mapping is not one of its code. */
static int find_bias(const struct mapped_file *file, uint64_t *ret, struct record_interpreter *in)
{
	for (unsigned i = 0; i < file->ranges.n; i++) {
		const struct code_range *r = &file->ranges.range[i];

		/* A mapping begins with a whole page. */
		if (file->offset < r->end && file->offset + 4096 > r->start) {
			*ret = file->start - file->offset + r->start - r->address;
			in->all_code = file->start - file->offset + r->start;
			in->all_code_end = file->start - file->offset + r->end;
			return 0;
		}
	}
	return -EINVAL;
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
	    find_bias(file, &bias, &in) < 0) {
		log_warning(
			"process %d: the objects of %s are not in its file: stacks have no functions of scripts",
			file->pid, pack->name);
		return 0;
	}
	in.runtime = bias + site->objects[OBJECT_RUNTIME];
	in.code_type = bias + site->objects[OBJECT_CODE_TYPE];
	in.evaluator = file->start - file->offset + site->function;
	in.evaluator_end = in.evaluator + site->size;
	in.layout = *pack->script;
	r = attachment_add_interpreter(attachment, target, &in);
	return r == -EOPNOTSUPP ? 0 : r;
}
