/* SPDX-License-Identifier: Apache-2.0 */
/* Which words of a file are slots of virtual tables: part of rtti.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/elf/image.h"
#include "lib/elf/words.h"

/* Sections with code; real files have four or five. */
#define CODE_SECTIONS_MAX 64

struct rtti_slots {
	const struct elf_image *image;
	struct elf_words *words;
	const Elf64_Shdr *code[CODE_SECTIONS_MAX];
	/* 0: only the segments define what is code. */
	size_t n_code;
};

/* The image and its words must live as long. */
void rtti_slots_init(struct rtti_slots *slots, const struct elf_image *image,
		     struct elf_words *words);
bool rtti_is_code(const struct rtti_slots *slots, const struct word *word);
/*
 * The number of slots of the virtual table at an address, up to a limit. Abstract classes, and
 * tables that are used while an object is constructed, may have no destructors: zeros in their
 * first two slots.
 */
int rtti_count_slots(struct rtti_slots *slots, uint64_t address, uint32_t limit, uint32_t *ret);
/* Whether a virtual table follows a pointer to a typeinfo, which is the case if the offset to the
 * top precedes it. *ret_slots: 0, it does not; at most 3. */
int rtti_check_vtable(struct rtti_slots *slots, uint64_t address, int32_t *ret_offset_to_top,
		      uint32_t *ret_slots);
