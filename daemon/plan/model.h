/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a runtime: how to recognise it and which of its functions tell what. One const
 * table per runtime in a file of its own; a new runtime is a new file and its name in pack.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "include/record_types.h"

/* What an entry into a probed function means. Recordings hold it as a number: new ones go to the
 * end. */
enum role {
	ROLE_NONE,
	ROLE_RUN_BEGIN, /* a run starts on this thread; value: its step id, where the probe reads
			   one */
	ROLE_RUN_END,   /* the innermost run of this group on this thread is over */
	ROLE_EXECUTOR_START, /* a run hands its graph to an executor; value: step id, value2: the
				call's identity */
	ROLE_EXECUTOR_RUN,   /* an executor works on this thread; value: step id, value2: the call's
				identity */
	ROLE_EXECUTOR_END,   /* the same executor is done */
	ROLE_DONE,           /* the callback that ends an executor runs; value: step id */
	ROLE_SCHEDULE,       /* ready operations are handed on */
	ROLE_OP_BEGIN,       /* an operation starts; value: its object, tag: its context */
	ROLE_OP_ASYNC_BEGIN, /* the same for one that may finish on another thread */
	ROLE_OP_END,         /* the context of an operation is destroyed; tag: the context */
	ROLE_OBJECT_FREE,    /* an operation's object is destroyed; value: the object */
	ROLE_BATCH_ADD,      /* the thread adds its operation's work to a batch; value: the batch */
	ROLE_BATCH_BEGIN,    /* the thread begins to process a batch; value: the batch */
	ROLE_BATCH_SIZE,     /* value: rows in the batch that the thread is processing, 32 bits */
	ROLE_BATCH_PADDED,  /* a batch was processed, by whichever thread; value: the batch, value2:
			       its rows with what was added to fill it */
	ROLE_BATCH_END,     /* a batch goes: it was processed, if this thread began that; value: the
			       batch */
	ROLE_REQUEST_BEGIN, /* a handler of the server begins to work for a request on this thread;
			       text: the request's path */
	ROLE_REQUEST_END,   /* the innermost handler of this group on this thread is done; text: the
			       model's name */
	ROLE_STREAM_BEGIN,  /* an object is made for an HTTP/2 stream; tag: its connection's object,
			       value: its own, value2: the stream's number */
	ROLE_STREAM_OPERATIONS, /* the thread wants something of a stream; value: its object,
				   value2: bits of what */
	ROLE_ALLOCATE,          /* the thread asks an allocator for memory; value: bytes */
	ROLE_ALLOCATED,         /* the same returns; value: the address, 0: there was none */
	ROLE_FREE,              /* memory goes back to that allocator; value: the address */
	ROLE_CHUNK, /* an allocator that has its memory from another gives out, or takes back, a
		       piece; value: address, value2: bytes, tag: which */
	ROLE_LABEL_BEGIN,   /* what the server itself calls the thread's work begins; text: its name
			       and arguments */
	ROLE_LABEL_END,     /* the innermost of these on the thread ends */
	ROLE_NEXT_BEGIN,    /* an iterator of a pipeline begins to make its next element on this
			       thread; tag: the iterator, text: its name */
	ROLE_NEXT_END,      /* it has made it; tag: the iterator */
	ROLE_RUNTIME_BEGIN, /* the runtime makes its devices */
	ROLE_LOAD_BEGIN,    /* the thread begins to load a model */
	ROLE_LOAD_PATH, /* where that, or the one that it has just loaded, lies; text: the directory
			 */
	ROLE_LOAD_END,  /* it is loaded */
	ROLE_RESTORE_BEGIN, /* variables are read; text: what their files' names begin with, tag:
			       the reader */
	ROLE_RESTORE_END,   /* the reader goes; tag */
};

/* What a capture can do without when it costs too much: probes that come and go together. The first
 * is given up last. */
enum probe_kind {
	KIND_RUNS,
	KIND_EXECUTORS,
	KIND_OPS,
	KIND_HANDOVER,
	KIND_SWITCHES, /* the scheduler's tracepoints: no probe of a pack */
	KIND_SOCKETS,  /* those of system calls and sockets: likewise */
	KIND_MEMORY,
	KIND_LABELS,
	KIND_ITERATORS,
	KIND_STARTUP, /* how a process starts; no capture has them */
	KIND_COUNT,
};

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

struct probe_spec {
	const char *symbol; /* mangled name, with * and ?; NULL for a static probe */
	const char *usdt; /* name of a static probe of the provider PACK_PROVIDER; arguments are the
			     probe's then, 64 bits in a register */
	enum role role;
	enum record_action action;
	struct probe_read value, value2;
	uint8_t tag; /* enum argument */
	/*
	 * It is probed where the function returns, and value is what it returns. The kernel
	 * replaces the return address for that, and an exception that crosses such a frame aborts
	 * the process: only for functions of which the pack says why none can.
	 */
	bool at_return;
	uint8_t group;     /* ROLE_RUN_BEGIN and ROLE_RUN_END of one kind share it; so do those of
			      requests */
	uint8_t min_level; /* of the capture, for this probe to be planted */
	const char *event; /* the name of the span that begins here, as the runtime's own profiler
			      has it; at an end: when its begin was not seen */
	const char *lost;  /* what is not shown when no symbol matches; NULL: nothing is missed */
	/*
	 * Where the function is found when it has no symbol: the class of this typeinfo name (or
	 * those that derive from it), and the slot of its virtual table, the first function being
	 * 0. NULL: nowhere.
	 */
	const char *class_name;
	bool derived;
	bool any_release; /* what it tells is believed only as far as it agrees with what is seen
			     elsewhere: another release's slot does no harm */
	uint8_t slot;
	uint8_t slot_from_end; /* not 0: instead of slot; 1 is the last one */
};

struct probe_pack {
	const char *name; /* of the runtime, for people */
	const char *const
		*files; /* base names of its shared libraries, with * and ?; NULL-terminated */
	const char *const *executables; /* the same for programs that hold the runtime statically */
	const char *const *beside; /* base names of libraries that have some of its functions where
				      the runtime is used; NULL-terminated */
	const char *
		slots_release; /* the slots in its probes are those of the releases that begin so */
	const char *version_function; /* exported, returns a constant string; NULL: none */
	const struct probe_spec *probes;
	unsigned n_probes;
	const char *const *cheap_types; /* operations that its own profiler shows only at level 3;
					   NULL-terminated */
	bool (*is_name)(
		const char *s,
		uint32_t size); /* whether bytes can be the name, or the type, of an operation */
	bool (*is_type)(const char *s, uint32_t size);
	uint32_t type_distance; /* bytes from the string view of an object's name to that of its
				   type */
};

enum probe_kind probe_kind_of_role(enum role role);
/* Whether it is of the library that serves beside the runtime, and says nothing without the
 * requests at sockets. */
bool role_is_of_streams(enum role role);
/* Whether the rest of a process is captured all the same when the kernel refuses a probe of the
 * kind in it. */
bool probe_kind_is_optional(enum probe_kind kind);
/* For people: "ops", … */
const char *probe_kind_name(enum probe_kind kind);

/* Whether allocations are seen: there is one for nearly every operation. The control service has
 * the same numbers. */
enum memory_choice {
	MEMORY_BY_LEVEL, /* at level 3 */
	MEMORY_ON,
	MEMORY_OFF,
};

/* How much a capture is to see. */
struct detail {
	unsigned level;  /* as host_tracer_level: 1 to 3 */
	bool no_sockets; /* requests are not looked for at sockets */
	enum memory_choice memory;
	bool startup;      /* how processes start is what it is for */
	bool ops_at_entry; /* one probe per operation: it ends where the next one starts, or the
			      executor leaves */
};

/* The kinds that the capture wants of those that have no probes of a pack; a bit each. */
unsigned detail_program_kinds(const struct detail *detail);
/* Whether a capture plants the probe. */
bool probe_is_wanted(const struct probe_spec *spec, const struct detail *detail);

/* The provider of the static probes that a server may have for us (include/tfprof.h). */
#define PACK_PROVIDER "tfprof"

/* A program with this much code that is no known one by its name may still hold a runtime
 * statically. */
#define PACK_BIG_CODE (8u << 20)

/* All packs, NULL-terminated. */
extern const struct probe_pack *const packs[];

/* Whether a string matches a pattern in which * stands for any characters and ? for one. */
bool pack_glob(const char *pattern, const char *string);

/* The pack whose library or program has this base name, NULL: none. */
const struct probe_pack *pack_find(const char *base_name, bool executable);
/* Whether a library of this base name is one that is looked at beside some runtime. */
bool pack_is_beside(const char *base_name);
