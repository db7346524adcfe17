/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/timeline/filter.h"

#include <string.h>

#include "lib/base/glob.h"

bool request_filter_passes(const struct request_filter *filter, const struct timeline *t,
			   const struct request *request)
{
	if (filter->slower_than_ns && request->end_ns - request->start_ns <= filter->slower_than_ns)
		return false;
	if (filter->path &&
	    (request->path >= t->n_texts || !glob_matches(filter->path, t->texts[request->path])))
		return false;
	return !filter->model ||
	       (request->model < t->n_texts && !strcmp(filter->model, t->texts[request->model]));
}
