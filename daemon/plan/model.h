/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The description of a runtime: how to recognize it, and the meaning of its functions. One const
 * table per runtime, in a file of its own: a new runtime is a new file in packs/ and its name in
 * packs/list.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "include/record_types.h"

/* What an entry into a probed function does to its object. Recordings hold it as a number: new ones
 * are appended. */
enum verb {
	VERB_NONE,
	VERB_OPEN, /* work of the kind begins on this thread */
	/* The innermost matching work ends. */
	VERB_CLOSE,
	/* Something about it is known from now on, or happens at this moment. */
	VERB_POINT,
	/* This thread hands work of the kind over. */
	VERB_ENQUEUE,
	/* The object is destroyed: its address may be reused for another one. */
	VERB_FREE,
	/* This thread takes up what was handed over. */
	VERB_DEQUEUE,
	/* Bit 0 of the value: 0 while this thread does work of the kind, 1 while it does none, as
	 * when it begins. May repeat what holds already. */
	VERB_SWITCH,
	VERB_COUNT,
};

/* What an object stands for. Recordings hold it as a number: new ones are appended. In brackets:
 * what a row's values are, for which verb. */
enum work {
	WORK_NONE,
	/* A handler of the server works on a request (OPEN: text, the path; CLOSE: text, the
	 * model). POINT: a run in this function is for an HTTP/1 request that the thread has read
	 * from this client (value: the first word of its struct sockaddr_in or sockaddr_in6). */
	WORK_REQUEST,
	/* One run of a graph or of a function (OPEN: value, its number). POINT: text, the model of
	 * the thread's next run, which has of_peer. SWITCH: a process has one switch, with one row
	 * or several. ENQUEUE: the thread hands a run over to another one (value: the run's object
	 * or number). The other thread has the same in value2 of OPEN, or in value of DEQUEUE
	 * before OPEN. */
	WORK_RUN,
	/* A part of a run on one thread (value: the run's number; value2: the run's identity, which
	 * ENQUEUE and OPEN share; without one, OPEN finds the run by its number; tag: the piece's
	 * identity). */
	WORK_PIECE,
	/* One execution of an operation (OPEN, FREE: value, its object; OPEN, CLOSE: tag, its
	 * context; ENQUEUE: ready ones are handed to other threads). */
	WORK_OP,
	/* The combined work of several runs (value: the batch, except POINT without value2: rows
	 * of the batch that the thread is processing; POINT with value2: its rows including
	 * padding). Where the batch is unknown until its work begins: ENQUEUE, DEQUEUE: value2, the
	 * task, which FREE destroys; the tasks that a thread takes up are those of the batch that
	 * it opens next, and OPEN and CLOSE have no value. */
	WORK_BATCH,
	/* An object for an HTTP/2 stream (value: the object; OPEN: value2, the stream's number;
	 * tag: its connection's object; POINT: value2, enum stream_bit). Where the server has an
	 * object for each answer (value): ENQUEUE: the thread's next run is to make it; DEQUEUE:
	 * the function that is entered passes it, or a message of it, to its stream. */
	WORK_STREAM,
	/* A stage of an input pipeline produces an element (tag: the stage; OPEN: text, its
	 * name). */
	WORK_STAGE,
	/* The server's own name for the thread's work (OPEN: text, name and arguments). */
	WORK_LABEL,
	/* Memory of an allocator (OPEN: value, bytes; CLOSE, FREE: value, the address; POINT:
	 * value, the address; value2, bytes; tag: allocated or freed). */
	WORK_ALLOC,
	WORK_RUNTIME, /* the runtime creates its devices (OPEN) */
	/* The thread loads a model (POINT: text, its directory). */
	WORK_LOAD,
	/* A model's variables are read (OPEN: text, the common prefix of their file names; tag: the
	 * reader). */
	WORK_WEIGHTS,
	/* A library passes the bytes that it decrypts or encrypts for its caller (action:
	 * ACTION_PLAIN, whose program sends what sockets send). */
	WORK_PLAIN,
	/* The evaluator of scripts: nothing is attached to it. Stacks that are sampled show the
	 * functions of the script in its place. */
	WORK_SCRIPT,
	/* What a server's threads hand one another, to work for one request: an object or a number
	 * (value; value2: 0, or what is equal for all of a process). ENQUEUE: it is made; OPEN,
	 * CLOSE: the thread works on it. POINT: if the thread works on none now, what it works on
	 * next is for the request that it has read since it last did. */
	WORK_CONTEXT,
	/* Work for a thread of the parent process. ENQUEUE: the thread hands what it works for to a
	 * child (low half of value2: the child's pid, as its parent has it). OPEN, CLOSE: the child
	 * does that, one after the other. */
	WORK_CHILD,
	WORK_COUNT,
};

#define OPEN(kind) .verb = VERB_OPEN, .work = WORK_##kind
#define CLOSE(kind) .verb = VERB_CLOSE, .work = WORK_##kind
#define POINT(kind) .verb = VERB_POINT, .work = WORK_##kind
#define ENQUEUE(kind) .verb = VERB_ENQUEUE, .work = WORK_##kind
#define FREE(kind) .verb = VERB_FREE, .work = WORK_##kind
#define DEQUEUE(kind) .verb = VERB_DEQUEUE, .work = WORK_##kind
#define SWITCH(kind) .verb = VERB_SWITCH, .work = WORK_##kind

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

/* An argument, or a 64-bit word that is reached from it. */
struct probe_read {
	uint8_t argument; /* enum argument */
	uint8_t deref;    /* words to go through; at most RECORD_STEPS */
	uint16_t offset;  /* of the first word from the argument; at most RECORD_STEP_MAX */
	/* Of the other words, each from the address in the word before it. */
	uint16_t then[RECORD_STEPS - 1];
};

struct pack;
struct table_path; /* of lib/elf/table.h */

/* Objects of the file that a row needs. */
enum row_object {
	OBJECT_RUNTIME,   /* WORK_SCRIPT: where the interpreter has everything */
	OBJECT_CODE_TYPE, /* WORK_SCRIPT: the type of objects with code */
	OBJECT_SINCE,     /* what the releases have that the row is for, and no earlier one */
	ROW_OBJECTS,
};

/* A slack larger than the frames of any thread. */
#define SLACK_ANY (1u << 24)

/* A row of a pack: one function, or static probe, and the meaning of an entry into it. */
struct probe_row {
	/*
	 * Where: a symbol (mangled, with * and ?), or a static probe of the provider PACK_PROVIDER,
	 * whose arguments have 64 bits and are in registers. class_name: where the function is
	 * without a symbol: in the virtual table of the class of this typeinfo name (or of classes
	 * derived from it); slot 0 is the first function, slot_from_end 1 the last one.
	 */
	const char *symbol;
	const char *usdt;
	const char *class_name;
	bool derived;
	uint8_t slot, slot_from_end; /* instead of slot, if slot_from_end is not 0 */
	/* The slot is tried in every release: what is read is accepted only as far as it agrees
	 * with other records. */
	bool any_release;
	/* Likewise without a symbol: an entry of a table of functions, which is an API struct. */
	const struct table_path *table;
	uint16_t entry;
	/* Besides, the file must export these, ... */
	const char *objects[ROW_OBJECTS];
	/* ... and this 64-bit constant, which without its low 16 bits is constant_is; 0: it exports
	 * nothing of that name. */
	const char *constant;
	uint32_t constant_is;
	/*
	 * The function that this exported function ends in, by a jump; or that a word of this
	 * exported object, number entry, leads to. All of a pack's rows that have one of these are
	 * found in a file, or none. instead: only where the row before is not found, which this one
	 * replaces.
	 */
	const char *jump, *word_of;
	bool instead;
	/*
	 * For a function whose first argument is a class of a few bytes: the row is for builds that
	 * pass it by address, and read the byte at this offset of it; with by_value, for those that
	 * pass it in the register. 0: the row is for all.
	 */
	uint8_t class_byte;
	bool by_value;
	/* The probe is behind the function's first call, and ARGUMENT_1 is what that returned. */
	bool first_call;

	enum verb verb;
	enum work work;
	bool async; /* OPEN(OP): it may finish on another thread */
	/* OPEN(OP): begins no operation if the function is entered inside one with the same tag
	 * that another row began. */
	bool goes_on;
	/* OPEN(PIECE): the callback that ends its run, which it identifies by number only. */
	bool last;
	/* OPEN(RUN): its request is the one of POINT(REQUEST), or of ENQUEUE(STREAM). */
	bool of_peer;

	enum record_action action;
	struct probe_read value, value2;
	struct probe_read tag; /* its low 32 bits. ACTION_ENTRY goes through no words */
	/*
	 * The probe is at the function's return, and value is what it returns. The kernel replaces
	 * the return address for that, and an exception that crosses such a frame aborts the
	 * process: only for functions for which the pack states why none can.
	 */
	bool at_return;
	/* OPEN: bytes above the stack pointer of the entry within which entries still belong to
	 * what begins: the function itself returns earlier, and another row's entry ends it.
	 * CLOSE(RUN): only a run ends whose slack ends within these bytes; 0: any.
	 * POINT(OP): what began within these bytes has ended. */
	uint32_t slack;
	/* Of the pack: OPEN and CLOSE of one kind of run, or request, share it. OPEN(PLAIN),
	 * FREE(PLAIN): enum plain_action. */
	uint8_t group;
	/* The lowest level of the capture at which this probe is attached. */
	uint8_t min_level;
	/* The name of the span that begins here, as the runtime's own profiler has it; at an end:
	 * the name if its beginning was not seen. */
	const char *event;
	/* What is not shown if nothing matches this row or one with the same text; NULL: nothing is
	 * missing. */
	const char *lost;
	/* The row is only for releases that begin with one of these, or with except for all others;
	 * NULL-terminated. NULL: for all. */
	const char *const *releases;
	bool except;
};

/*
 * Where an operation's object has its name and its type. NAME_VIEW: its offset is found in a live
 * process, and only type_distance is needed. An object without a type has its name as its type: the
 * distance is 0 then, and the name is not at offset 0 of the object that the steps lead to.
 */
struct pack_names {
	enum record_name_form form;
	uint32_t type_distance; /* bytes from the name to the type */
	/* Words to follow from the object, and the offset of the name after the last one. */
	uint8_t n_steps;
	uint16_t steps[RECORD_STEPS];
	uint16_t name_offset;
	bool (*is_name)(const char *s, uint32_t size); /* whether the bytes can be a name */
	bool (*is_type)(const char *s, uint32_t size); /* NULL: any bytes can be a type */
	/*
	 * Operations are numbers: the low 32 bits of the value of OPEN(OP). This leads to the table
	 * of their names, in the file of the functions; of the fields above only is_name is needed
	 * then.
	 */
	const struct table_path *list;
	/*
	 * Each operation is a function with a symbol: the value of OPEN(OP) is the number of its
	 * site in the plan. This finds the name in the symbol; of the fields above only is_name and
	 * form, which is not NAME_VIEW, are needed then. NULL: the symbol has none.
	 */
	const char *(*in_symbol)(const char *symbol, uint32_t *ret_size);
};

/* Whether the value of OPEN(OP) is a number rather than the operation's object. */
static inline bool names_have_numbers(const struct pack_names *names)
{
	return names->list || names->in_symbol;
}

/* The bits of POINT(STREAM): an answer begins, ends, has a message; a request is aborted. */
struct stream_bits {
	uint32_t begins, ends, message, aborts;
};

/* POINT(ALLOC): the tags of allocated and of freed memory. */
struct chunk_tags {
	uint32_t given, taken;
};

struct known_build {
	const char *id; /* hexadecimal */
	const char *release;
};

struct pack {
	const char *name; /* of the runtime, for display */
	/* Base names of its shared libraries, with * and ?; NULL-terminated. */
	const char *const *files;
	/* The same for programs that contain it statically. */
	const char *const *executables;
	/* It makes no process a target: its rows are looked for in every target. */
	bool everywhere;
	/* Its files are mapped before those of a runtime: a new mapping of them is no news. */
	bool mapped_first;
	/* Its process works for its parent: a capture of that one is of both. */
	bool works_for_parent;
	/* Slots in its rows are those of releases that begin with one of these, and of these
	 * builds, whose files do not state their release; neither: of all. */
	const char *const *slots_releases;
	const struct known_build *builds; /* ends with a NULL */
	const char *version_function;     /* exported, returns a constant string; NULL: none */
	const struct probe_row *rows;
	unsigned n_rows;
	/* Operations that its own profiler shows only at level 3; NULL-terminated. */
	const char *const *cheap_types;
	struct pack_names names;
	struct stream_bits stream_bits;
	/* Operations end where the next one on their thread begins at their height of the stack or
	 * above, or the run ends. */
	bool ops_end_at_next;
	bool ops_outside_runs; /* some are in no run */
	/* A sentence about its operations that each capture with them repeats; NULL: none. */
	const char *ops_remark;
	const char *stage_word; /* names of its stages begin with it */
	struct chunk_tags chunk_tags;
	/* The folder in a model's directory with the files of its variables; NULL: none. */
	const char *weights_folder;
	/* WORK_SCRIPT: of the interpreter's objects; NULL: it has no such row. */
	const struct script_layout *script;
};

static inline bool row_is(const struct probe_row *row, enum verb verb, enum work work)
{
	return row->verb == verb && row->work == work;
}

/* The provider of the static probes that a server may have for tfprofd (include/tfprof.h). */
#define PACK_PROVIDER "tfprof"

/* A program with this much code whose name is unknown may still contain a runtime statically. */
#define PACK_BIG_CODE (8u << 20)
