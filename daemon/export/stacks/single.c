/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/stacks/single.h"

#include <errno.h>
#include <stdlib.h>

/* The only chunk, and its bytes behind it. */
struct single {
	struct iovec chunk;
	void *bytes;
};

static void free_single(struct exported *exported)
{
	struct single *single = exported->memory;

	free(single->bytes);
	free(single);
}

int single_bytes(void *bytes, size_t size, uint64_t max_bytes, uint64_t n_events,
		 struct exported *ret)
{
	struct single *single = NULL;
	int r = max_bytes && size > max_bytes ? -EFBIG : 0;

	if (r >= 0) {
		single = malloc(sizeof(*single));
		r = single ? 0 : -ENOMEM;
	}
	if (r < 0) {
		free(bytes);
		return r;
	}
	*single =
		(struct single){ .chunk = { .iov_base = bytes, .iov_len = size }, .bytes = bytes };
	*ret = (struct exported){ .chunks = &single->chunk,
				  .n_chunks = size ? 1 : 0,
				  .size = size,
				  .n_events = n_events,
				  .memory = single,
				  .free = free_single };
	return 0;
}

int single_text(FILE *f, char **text, const size_t *size, uint64_t max_bytes, uint64_t n_events,
		struct exported *ret)
{
	if (fclose(f) != 0) {
		free(*text);
		return -ENOMEM;
	}
	return single_bytes(*text, *size, max_bytes, n_events, ret);
}
