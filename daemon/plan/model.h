/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a runtime: how to recognize it and which of its functions tell what. One const
 * table per runtime, in a file of its own: a new runtime is a new file in packs/ and its name in
 * packs/list.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "include/record_types.h"

/* What an entry into a probed function does to its object. Recordings hold it as a number: new ones
 * go to the end. */
enum verb {
	VERB_NONE,
	VERB_OPEN,    /* work of the kind begins on this thread */
	VERB_CLOSE,   /* the innermost that is meant ends */
	VERB_POINT,   /* something is known of it from now on, or happens at once */
	VERB_ENQUEUE, /* this thread hands work of the kind on */
	VERB_FREE,    /* the object is destroyed: its address may come back as another one */
	VERB_COUNT,
};

/* What an object stands for. Recordings hold it as a number: new ones go to the end. In brackets:
 * what a row's values are, for which verb. */
enum work {
	WORK_NONE,
	WORK_REQUEST, /* a handler of the server works for a request (OPEN: text, the path; CLOSE:
			 text, the model) */
	WORK_RUN,     /* one run of a graph or of a function (OPEN: value, its number) */
	WORK_PIECE,   /* a part of a run on one thread (value: the run's number; value2: the run's
			 identity, which ENQUEUE and OPEN share; without one, OPEN finds the run by
			 its   number; tag: the piece's identity) */
	WORK_OP, /* one execution of an operation (OPEN, FREE: value, its object; OPEN, CLOSE: tag,
		    its context; ENQUEUE: ready ones are handed to other threads) */
	WORK_BATCH,  /* several runs' work at once (value: the batch, but of POINT without value2:
			rows of the batch that the thread is processing; POINT with value2: its rows
			with what was added to fill it) */
	WORK_STREAM, /* an object for an HTTP/2 stream (value: the object; OPEN: value2, the
			stream's number; tag: its connection's object; POINT: value2, enum
			stream_bit) */
	WORK_STAGE,  /* a stage of an input pipeline makes an element (tag: the stage; OPEN: text,
			its  name) */
	WORK_LABEL,  /* what the server itself calls the thread's work (OPEN: text, name and
		      * arguments)
		      */
	WORK_ALLOC,  /* memory of an allocator (OPEN: value, bytes; CLOSE, FREE: value, the address;
			POINT: value, the address; value2, bytes; tag: given out or taken back) */
	WORK_RUNTIME, /* the runtime makes its devices (OPEN) */
	WORK_LOAD,    /* the thread loads a model (POINT: text, its directory) */
	WORK_WEIGHTS, /* a model's variables are read (OPEN: text, what their files' names begin
			 with; tag: the reader) */
	WORK_COUNT,
};

#define OPEN(kind) .verb = VERB_OPEN, .work = WORK_##kind
#define CLOSE(kind) .verb = VERB_CLOSE, .work = WORK_##kind
#define POINT(kind) .verb = VERB_POINT, .work = WORK_##kind
#define ENQUEUE(kind) .verb = VERB_ENQUEUE, .work = WORK_##kind
#define FREE(kind) .verb = VERB_FREE, .work = WORK_##kind

/* Integer arguments in the order of the System V ABI. A function that returns a class by value has
 * its result's address first. */
enum argument {
	ARGUMENT_NONE,
	ARGUMENT_1,
	ARGUMENT_2,
	ARGUMENT_3,
	ARGUMENT_4,
	ARGUMENT_5,
	ARGUMENT_6,
};

struct probe_read {
	uint8_t argument; /* enum argument */
	uint8_t deref; /* 1: the 64-bit word at argument + offset; 2: the word that this one points
			  to (value only) */
	uint16_t offset; /* at most 4095 */
};

struct pack;

/* A slack that is more than a thread's frames take. */
#define SLACK_ANY (1u << 24)

/* A row of a pack: one function, or static probe, and what an entry into it means. */
struct probe_row {
	/*
	 * Where: a symbol (mangled, with * and ?), or a static probe of the provider PACK_PROVIDER,
	 * whose arguments have 64 bits and are in registers. class_name: where the function is
	 * without a symbol: in the virtual table of the class of this typeinfo name (or of those
	 * that derive from it); slot 0 is the first function, slot_from_end 1 the last one.
	 */
	const char *symbol;
	const char *usdt;
	const char *class_name;
	bool derived;
	uint8_t slot, slot_from_end; /* the latter is not 0: instead of slot */
	/* The slot is tried in every release: what is read is believed only as far as it agrees
	 * with what is seen elsewhere. */
	bool any_release;

	enum verb verb;
	enum work work;
	bool async; /* OPEN(OP): it may finish on another thread */
	bool last;  /* OPEN(PIECE): the callback that ends its run, which it knows by number only */

	enum record_action action;
	struct probe_read value, value2;
	uint8_t tag; /* enum argument */
	/*
	 * It is probed where the function returns, and value is what it returns. The kernel
	 * replaces the return address for that, and an exception that crosses such a frame aborts
	 * the process: only for functions of which the pack says why none can.
	 */
	bool at_return;
	/* OPEN: bytes above the stack pointer of the entry where entries are still inside of what
	 * begins: the function itself returns before, and another row's entry ends it. */
	uint32_t slack;
	uint8_t group; /* of the pack: OPEN and CLOSE of one kind of run, or request, share it */
	uint8_t min_level; /* of the capture, for this probe to be attached */
	/* The name of the span that begins here, as the runtime's own profiler has it; at an end:
	 * when its begin was not seen. */
	const char *event;
	const char *lost; /* what is not shown when nothing matches; NULL: nothing is missed */
};

/* Where an operation's object has its name and its type. NAME_VIEW: its place is found in a live
 * process, and only type_distance is needed. */
struct pack_names {
	enum record_name_form form;
	uint32_t type_distance; /* bytes from the name to the type */
	/* Words to go through from the object, and where the name is then. */
	uint8_t n_steps;
	uint16_t steps[RECORD_STEPS];
	uint16_t name_offset;
	bool (*is_name)(const char *s, uint32_t size); /* whether bytes can be one */
	bool (*is_type)(const char *s, uint32_t size);
};

/* The bits of POINT(STREAM) that tell of the answer. */
struct stream_bits {
	uint32_t begins, ends;
};

/* POINT(ALLOC): the tags of memory given out, and of memory taken back. */
struct chunk_tags {
	uint32_t given, taken;
};

struct pack {
	const char *name;               /* of the runtime, for people */
	const char *const *files;       /* base names of its shared libraries, with * and ?;
					   NULL-terminated */
	const char *const *executables; /* the same of programs that hold it statically */
	/* It makes no process a target: its rows are looked for in every target. */
	bool everywhere;
	const char *slots_release;    /* slots in its rows are those of releases that begin so */
	const char *version_function; /* exported, returns a constant string; NULL: none */
	const struct probe_row *rows;
	unsigned n_rows;
	const char *const *cheap_types; /* operations that its own profiler shows only at level 3;
					   NULL-terminated */
	struct pack_names names;
	struct stream_bits stream_bits;
	bool ops_end_at_next;   /* operations end where the next one on their thread begins, or the
				   run ends */
	const char *stage_word; /* names of its stages begin with it */
	struct chunk_tags chunk_tags;
	/* Of a model's directory, with the files of its variables; NULL: none. */
	const char *weights_folder;
};

static inline bool row_is(const struct probe_row *row, enum verb verb, enum work work)
{
	return row->verb == verb && row->work == work;
}

/* The provider of the static probes that a server may have for us (include/tfprof.h). */
#define PACK_PROVIDER "tfprof"

/* A program with this much code that is no known one by its name may still hold a runtime
 * statically. */
#define PACK_BIG_CODE (8u << 20)
