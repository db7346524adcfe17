/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames of an interpreter's functions in sampled stacks. Included by record.h, of whose words
 * these are a part.
 */
#pragma once

#define RECORD_SCRIPT_FRAMES 64 /* a power of 2 */
/* Of a text that is kept: its end. */
#define RECORD_SCRIPT_TEXT 96
/* As the size of a text that is no ASCII, and is not kept. */
#define SCRIPT_NOT_ASCII 0xffffffffu

/* Of record_stack.script: a number of frames, and enum script_flag. */
#define SCRIPT_FRAMES(script) ((script)&0xffu)

enum script_flag {
	/* There are more frames outside of these. */
	SCRIPT_TRUNCATED = 1 << 14,
	/* A frame was not what it should be, or could not be read: it and those outside of it are
	 * missing. */
	SCRIPT_UNREADABLE = 1 << 15,
};

/*
 * With script frames, a word for each follows the other frames of a record_stack, the innermost one
 * first, and then SCRIPT_RANGES words: where the code of the interpreter's evaluator begins and
 * ends, and where all code of its file does. A frame is record_script.number, 0: its name was not
 * sent; and this bit, if the evaluator was entered for it: the frames from there inwards, up to the
 * next such bit, are of one call of the evaluator.
 */
#define SCRIPT_IS_ENTRY (1ULL << 32)
#define SCRIPT_NUMBER(frame) ((__u32)(frame))
#define SCRIPT_RANGES 4

/* A function of a script that stacks refer to. Both texts end at the end of what they hold. */
struct record_script {
	struct record head;
	__u32 number; /* in the capture, from 1; several can be the same function */
	__u32 line;   /* its first one */
	/* As the target states it; may exceed what is kept. 0: it could not be read. */
	__u32 name_size, file_size;
	char name[RECORD_SCRIPT_TEXT];
	char file[RECORD_SCRIPT_TEXT];
};

#define SCRIPT_WORDS 32 /* of an object that are read at most; a power of 2 */

/* Which frames the evaluator was entered for. */
enum script_entries {
	SCRIPT_ENTRIES_ALL,
	/* Those whose kind is 1. */
	SCRIPT_ENTRIES_MARKED,
	/* Those inside of a frame without a function, whose kind is SCRIPT_NO_FUNCTION or more. */
	SCRIPT_ENTRIES_INSIDE,
};
#define SCRIPT_NO_FUNCTION 3

/* The frame is there, rather than what leads to it. */
#define SCRIPT_DIRECT 0xffff

/* Where an interpreter has its threads, frames and code: offsets in bytes, of words of 8 bytes
 * except where it is stated. */
struct script_layout {
	/* From the interpreter's runtime: the thread that holds its lock, 0: it has none there; and
	 * the interpreter. */
	__u16 runtime_current, runtime_interpreter;
	__u16 interpreter_threads; /* the first one */
	/* id: of the C library, the base of the segment FS. */
	__u16 thread_next, thread_id, thread_calls;
	__u16 calls_frame; /* the innermost frame; SCRIPT_DIRECT: thread_calls leads to it */
	/* In the low bits of the code's address there can be marks. */
	__u16 frame_code, frame_previous;
	__u16 frame_kind; /* 1 byte */
	__u16 entries;    /* enum script_entries */
	__u16 object_type;
	__u16 code_line; /* 4 bytes */
	__u16 code_file, code_name;
	__u16 text_size, text_bytes;
	__u16 text_state; /* 4 bytes, of which these are set if it is ASCII */
	__u16 text_is_ascii;
};

/* The interpreter of one target; written by the broker alone. */
struct record_interpreter {
	__u64 runtime; /* 0: there is none */
	/* The type that every object with code has. */
	__u64 code_type;
	__u64 evaluator, evaluator_end;
	__u64 all_code, all_code_end; /* of its file */
	struct script_layout layout;
	__u16 reserved;
};

_Static_assert(sizeof(struct record_script) == 224, "script record");
_Static_assert(sizeof(struct record_interpreter) == 88, "interpreter");
