/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C++ classes of a file without symbols for them: their run-time type information, as the Itanium
 * C++ ABI lays it out (2.9.5 "RTTI Layout", 2.5 "Virtual Table Layout"). A typeinfo object holds
 * the class's mangled name and its bases; each virtual table of a class is preceded by a pointer to
 * its typeinfo. So a base class's name leads to the classes derived from it, to their tables, and
 * to the function at a slot, even in a stripped file.
 *
 * Only the classes in this one file are visible. Pointers are taken as relocations make them (RELA
 * and RELR, by PT_DYNAMIC; a file without section headers is fine), or as they are in a file that
 * is linked to fixed addresses. Limits: every table has one; an index of TensorFlow's 0.8 GB
 * library takes about 25 MB. Errors are those of image.h.
 */
#pragma once

#include "lib/elf/image.h"

/* Of the name of a class; larger templates are not found. */
#define RTTI_NAME_MAX 65535
/* Virtual functions of one table. */
#define RTTI_SLOTS_MAX 4096

struct rtti;

/* A class as elf_rtti_find reports it. Addresses are virtual, as in the file. */
struct rtti_class {
	const char *name;  /* mangled, without _ZTS; lives until the callback returns */
	uint64_t typeinfo; /* never 0 */
	/* Of slot 0; 0 if the file has no such table. */
	uint64_t vtable;
	/* The number of words that point to code or to other files. If such words follow the table,
	 * it seems longer than it is. */
	uint32_t n_slots;
};

/* Returns 0 to continue; another value ends the calls and becomes the result of elf_rtti_find. */
typedef int (*rtti_callback)(const struct rtti_class *class, void *data);

/*
 * Reads the file's typeinfo objects and virtual tables once; any number of queries may follow. A
 * file without any is not an error. The image must outlive the index.
 */
int elf_rtti_open(const struct elf_image *image, struct rtti **ret, const char **ret_reason);
struct rtti *elf_rtti_free(struct rtti *rtti);

/* The number of classes that the file defines. */
size_t elf_rtti_count(const struct rtti *rtti);

/*
 * Calls callback for the class with this mangled name ("N3foo4BaseE"; NULL: for each class), or,
 * with derived, for the classes that are derived from it, directly or not, in the order of their
 * typeinfo's addresses; the base class itself may then belong to another file. A class of an
 * anonymous namespace has its name without the '*' before it.
 *
 * The vtable is the class's primary one. For a derived class it is the one that a pointer to the
 * base class sees: the primary one, or a secondary one if the base class is not the first. Its
 * slots are numbered as the base class's: the virtual functions in the order of their declaration,
 * where a virtual destructor takes two. It is 0 if the base class is inherited virtually, and for
 * classes that no constructor of this file creates.
 */
int elf_rtti_find(struct rtti *rtti, const char *name, bool derived, rtti_callback callback,
		  void *data);

/*
 * The address of the function at a slot. -ENOENT: there is no such slot, or it holds no function of
 * this file (as the slot of a pure virtual function).
 */
int elf_rtti_slot(struct rtti *rtti, const struct rtti_class *class, uint32_t slot,
		  uint64_t *ret_address);

static inline void elf_rtti_freep(struct rtti **rtti)
{
	elf_rtti_free(*rtti);
}
