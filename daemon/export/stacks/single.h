/* SPDX-License-Identifier: Apache-2.0 */
/* An export that is one piece of memory. */
#pragma once

#include <stdio.h>

#include "daemon/export/exporter.h"

/*
 * Closes the stream, which is one of open_memstream() with these variables, and makes its bytes the
 * export. max_bytes: 0: no limit. n_events: what they show. -ENOMEM, -EFBIG.
 */
int single_text(FILE *f, char **text, const size_t *size, uint64_t max_bytes, uint64_t n_events,
		struct exported *ret);
/* The same for bytes of malloc(), which it takes. -ENOMEM, -EFBIG. */
int single_bytes(void *bytes, size_t size, uint64_t max_bytes, uint64_t n_events,
		 struct exported *ret);
