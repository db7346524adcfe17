/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of a timeline, each once. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/base/map.h"

struct correlator;
struct record_text;

/* Zeros at first. */
struct texts {
	struct map by_hash;
	uint64_t seed; /* of the hashes */
	uint64_t size;
};

/* The index of a text, TEXT_NONE: no room. size: bytes; the text ends at a NUL among them. */
uint32_t texts_add(struct correlator *c, const char *text, size_t size);
/* That of a record: a byte that is not a printable ASCII character becomes a question mark. */
uint32_t texts_add_record(struct correlator *c, const struct record_text *r);
/* "" for TEXT_NONE. */
const char *texts_get(const struct correlator *c, uint32_t text);
void texts_done(struct texts *t);
