/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C++ classes of a file that has no symbols of them: their run-time type information, as the
 * Itanium C++ ABI lays it out (2.9.5 "RTTI Layout", 2.5 "Virtual Table Layout"). A typeinfo object
 * holds the class's mangled name and its bases; each virtual table of a class is preceded by a
 * pointer to its typeinfo. So a base class's name leads to the classes derived from it, to their
 * tables, and to the function at a slot, whoever stripped the file.
 *
 * Only what lies in this one file is seen. Pointers are taken as relocations make them (RELA and
 * RELR, by PT_DYNAMIC; a file without section headers is fine), or as they stand in a file that is
 * linked to fixed addresses. Caps: every table has one; an index of TensorFlow's 0.8 GB library
 * takes about 25 MB. Errors are those of image.h.
 */
#pragma once

#include "lib/elf/image.h"

/* Of the name of a class; those of larger templates are not found. */
#define RTTI_NAME_MAX 65535
/* Virtual functions of one table. */
#define RTTI_SLOTS_MAX 4096

struct rtti;

/* A class in the shape that a caller asked about: see elf_rtti_find. Addresses are virtual, as in
 * the file. */
struct rtti_class {
	const char *name;  /* mangled, without _ZTS; lives until the callback returns */
	uint64_t typeinfo; /* 0 never */
	uint64_t vtable;   /* of slot 0; 0 when the file has no such table */
	/* As many words as point to code or to other files. Where such words follow the table, it
	 * seems longer than it is. */
	uint32_t n_slots;
};

/* Returns 0 to go on; another value ends the calls and becomes the result of elf_rtti_find. */
typedef int (*rtti_callback)(const struct rtti_class *class, void *data);

/*
 * Reads the file's typeinfo objects and virtual tables once; several questions can be asked then. A
 * file without any is no error. The image must outlive the index.
 */
int elf_rtti_open(const struct elf_image *image, struct rtti **ret, const char **ret_reason);
struct rtti *elf_rtti_free(struct rtti *rtti);

/* How many classes the file defines. */
size_t elf_rtti_count(const struct rtti *rtti);

/*
 * Calls callback for the class with this mangled name ("N3foo4BaseE"; NULL: for each class), or,
 * when derived, for the classes that are derived from it, directly or not, in the order of their
 * typeinfo's addresses; the base class itself may belong to another file then. A class of an
 * anonymous namespace goes by its name without the '*' before it.
 *
 * The vtable is the class's primary one. For a derived class it is the one that a pointer to the
 * base class sees: the primary one, or a secondary one when the base class is not the first. Its
 * slots are numbered as the base class's: the virtual functions in the order they are declared,
 * where a virtual destructor takes two. It is 0 when the base class is inherited virtually, and for
 * classes that no constructor of this file makes.
 */
int elf_rtti_find(struct rtti *rtti, const char *name, bool derived, rtti_callback callback,
		  void *data);

/*
 * The address of the function at a slot. -ENOENT: there is no such slot, or it holds no function of
 * this file (as the slot of a pure virtual function does).
 */
int elf_rtti_slot(struct rtti *rtti, const struct rtti_class *class, uint32_t slot,
		  uint64_t *ret_address);

static inline void elf_rtti_freep(struct rtti **rtti)
{
	elf_rtti_free(*rtti);
}
