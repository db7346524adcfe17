/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernel side reports to user space: records in ring buffers, and the words that both
 * share by mmap. Included by bpf/ and by daemon/, so it has no includes of its own: the includer
 * provides the fixed-width types (vmlinux.h; user space includes record_types.h).
 *
 * Every record starts with struct record. Kinds are append-only; a reader skips an unknown kind, by
 * its size. Times are nanoseconds of CLOCK_MONOTONIC. Thread and process ids are those of the
 * initial pid namespace.
 */
#pragma once

#define RECORD_MAX_TARGETS 16 /* processes in one capture */
#define RECORD_COMM_SIZE 16   /* TASK_COMM_LEN */
/* Bytes of an object's name that are kept; longer ones are truncated and flagged. */
#define RECORD_NAME_SIZE 512
#define RECORD_TYPE_SIZE 96  /* likewise its type */
#define RECORD_CANDIDATES 10 /* string views examined while the layout is unknown */
#define RECORD_CANDIDATE_SIZE 200
#define RECORD_OBJECT_BYTES 384 /* of an object that are searched for string views */
#define RECORD_TEXT_SIZE 96     /* bytes of a function's string argument that are kept */
#define RECORD_CPU_RINGS 8      /* at most, each for some CPUs */
#define RECORD_MAX_RINGS (RECORD_CPU_RINGS + 1)
#define RECORD_MAX_CPUS 1024

enum record_kind {
	RECORD_NONE = 0,
	/* Struct record_probe: a probed function was entered; .site identifies the probe. */
	RECORD_PROBE = 1,
	RECORD_NAME =
		/* Struct record_name: name and type of an object seen for the first time. */
	2,
	RECORD_OBJECT =
		/* Struct record_object: the same while the object's layout is unknown. */
	3,
	/* Struct record_switch: a CPU switched from one thread to another. */
	RECORD_SWITCH = 4,
	RECORD_WAKE = 5, /* struct record_wake: a thread of a target was woken */
	/* Struct record_thread: a thread of a target and its name, at the end of the window. */
	RECORD_THREAD = 6,
	/* Struct record_thread: a thread of a target ended. */
	RECORD_EXIT = 7,
	/* Struct record_thread: a target executed another program. */
	RECORD_EXEC = 8,
	/* Struct record_thread: a target created a thread; .tid is the new one. */
	RECORD_FORK = 9,
	/* Struct record_thread: a thread of another process that had a CPU which a target's thread
	 * wanted or left; not sent for those behind RECORD_TID_OTHER_USER. */
	RECORD_FOREIGN = 10,
	/* Struct record_message or record_headers: part of a message passed through a socket of a
	 * target. */
	RECORD_MESSAGE = 11,
	/* Struct record_field: a literal field of an HTTP/2 header block, or the first line of an
	 * HTTP/1 message. */
	RECORD_FIELD = 12,
	RECORD_READY =
		/* Struct record_ready: bytes arrived at a socket on which a target serves. */
	13,
	RECORD_UNSEEN =
		/* Struct record_unseen: something of a target that cannot be followed. */
	14,
	RECORD_TEXT = 15, /* struct record_text: a probed function was entered with a string */
	/* Struct record_quota: a cgroup that had used up its quota of CPU time. */
	RECORD_QUOTA = 16,
	/* Struct record_stack: what a thread of a target executed when its CPU was sampled. */
	RECORD_STACK = 17,
	RECORD_DEPARTURE =
		/* Struct record_departure: bytes that a call left in the socket were sent. */
	18,
	/* Struct record_kernel_name: a function of the kernel that later stacks refer to. */
	RECORD_KERNEL_NAME = 19,
	RECORD_ACCEPTED = 20, /* struct record_accepted: a target accepted a connection */
	/* Struct record_script: a function of a script that later stacks refer to. */
	RECORD_SCRIPT = 21,
	RECORD_STACK_COPY = 128, /* struct record_stack_copy: before a stack; never kept */
};

/* The head of every record. 16 bytes. */
struct record {
	__u64 time;
	__u32 tid; /* the thread that the record is about */
	__u8 kind; /* enum record_kind */
	/* RECORD_PROBE, TEXT, NAME, OBJECT: the number in the attach cookie. RECORD_WAKE: enum
	 * record_wake_flag. */
	__u8 site;
	/* Size of the whole record in units of 8 bytes, for the fixed-size kinds; 0 for the
	 * others. */
	__u8 size8;
	/* RECORD_PROBE, NAME, OBJECT: index of the process in the capture. */
	__u8 target;
};

struct record_probe {
	struct record head;
	__u32 stack; /* low half of the stack pointer at the function's entry */
	__u32 tag;   /* low half of a second argument */
	__u64 value; /* an argument, or what it pointed to */
};

/* A probe that reads a second 64-bit value. */
struct record_probe2 {
	struct record_probe probe;
	__u64 value2;
};

/* A probe that reads a string: .value is its address. */
struct record_text {
	struct record_probe probe;
	/* As the target states it; may exceed RECORD_TEXT_SIZE. 0: it could not be read. */
	__u32 size;
	__u32 reserved;
	char text[RECORD_TEXT_SIZE];
};

#define RECORD_NAME_NUMBER 0xffffffffu

struct record_name {
	struct record head;
	__u64 object;
	/* May exceed RECORD_NAME_SIZE. RECORD_NAME_NUMBER: name holds a 64-bit number instead. */
	__u32 name_size;
	__u32 type_size;
	char name[RECORD_NAME_SIZE];
	char type[RECORD_TYPE_SIZE];
};

struct record_candidate {
	/* Of the string view {size, pointer} in the object. */
	__u32 offset;
	__u32 size; /* as the view states it */
	char bytes[RECORD_CANDIDATE_SIZE];
};

struct record_object {
	struct record head;
	__u64 object;
	__u32 n_candidates;
	__u32 reserved;
	struct record_candidate candidates[RECORD_CANDIDATES];
};

/* In place of the id of another user's thread, if the client may not see it. */
#define RECORD_TID_OTHER_USER 0xffffffffu

#include "include/record_sched.h"

enum message_direction {
	MESSAGE_READ,
	MESSAGE_WRITTEN,
};

enum message_protocol {
	MESSAGE_NEW, /* unknown so far */
	MESSAGE_HTTP1,
	MESSAGE_HTTP2,
	MESSAGE_OTHER,
};

enum message_part {
	/* HTTP/1: the message's first byte. HTTP/2: a frame's. */
	MESSAGE_FIRST = 1 << 0,
	MESSAGE_LAST =
		/* The last byte of the message; HTTP/2: of its stream in this direction. */
	1 << 1,
	/* HTTP/1: it began like a request, not like a response. */
	MESSAGE_IS_REQUEST = 1 << 2,
	/* Bytes passed unseen, or are not such a message: what was in progress cannot be
	 * followed. */
	MESSAGE_LOST = 1 << 3,
	/* The target closes the connection, or its own half of it: .began is when bytes last
	 * passed. */
	MESSAGE_CLOSED = 1 << 4,
	/* The connection was made to the target, not by it. */
	MESSAGE_SERVER = 1 << 5,
	/* HTTP/2: the connection's first bytes: header fields can be followed from here on. */
	MESSAGE_PREFACE = 1 << 6,
	/* HTTP/2: a header block could not be followed: earlier fields are no longer known. */
	MESSAGE_NO_FIELDS = 1 << 7,
	/* The connection was accepted after the window opened. */
	MESSAGE_ACCEPTED = 1 << 8,
	/* Bytes were read in which no known message begins, possibly including messages: reported
	 * once. */
	MESSAGE_PASSED = 1 << 9,
	/* TCP: when the call returned, bytes of it were in the socket and not sent yet. */
	MESSAGE_HELD = 1 << 10,
	/* The bytes were read where a library decrypts or encrypts them. */
	MESSAGE_DECRYPTED = 1 << 11,
};

/* The part of one message that a call passed: 64 bytes. */
struct record_message {
	struct record head; /* .time: the call returned */
	__u64 began;        /* .time of its entry */
	/* A number for the connection; it can be reused after this one was closed. */
	__u64 socket;
	/* Of the socket: distinguishes them. */
	__u32 inode;
	/* TCP: the sequence number after the last byte of this part. */
	__u32 position;
	__u32 stream; /* HTTP/2 */
	/* HTTP/1: of the message so far, head and body. HTTP/2: of the frame. */
	__u32 bytes;
	__u16 local_port, peer_port; /* 0: not TCP */
	__u16 part;                  /* enum message_part */
	__u16 status;                /* HTTP/1: of a response; 0: none yet */
	__u8 direction;              /* enum message_direction */
	__u8 protocol;               /* enum message_protocol */
	__u8 type, flags;            /* HTTP/2: of the frame */
	/* HTTP/1: the number of the message in this direction, from 1 when it was first seen. */
	__u32 ordinal;
};

#define RECORD_REFERENCES 14

/* A block of header fields. A reference to a field in a table is the number of fields that were
 * inserted before it. */
struct record_headers {
	struct record_message message;
	/* Fields inserted into the table of this direction until the block's end, since it was
	 * first seen. */
	__u32 inserted;
	/* Index of a static field :status, 0: none. */
	__u8 status;
	__u8 method; /* likewise :method */
	__u8 path;   /* likewise :path */
	__u8 n_references;
	__u16 references[RECORD_REFERENCES]; /* low half of their numbers */
	__u32 reserved;
};

#define RECORD_FIELD_SIZE 160

enum record_field_name {
	FIELD_PATH,
	FIELD_METHOD,
	FIELD_STATUS,
	FIELD_GRPC_STATUS,
	FIELD_REQUEST_LINE, /* HTTP/1, without a query */
};

struct record_field {
	struct record head;
	__u64 socket;
	__u32 inode;
	__u32 stream;
	/* Of the field in the table, if it was inserted; references use its low half. */
	__u32 number;
	__u16 size; /* may exceed what is kept */
	__u8 direction;
	__u8 name;     /* enum record_field_name */
	__u8 inserted; /* it was inserted into the table */
	__u8 huffman;  /* text is Huffman-coded (HPACK) */
	__u8 reserved[6];
	char text[RECORD_FIELD_SIZE];
};

struct record_ready {
	struct record head; /* .tid: 0 */
	__u64 socket;
	/* The sequence number after the last byte that arrived. */
	__u32 position;
	/* 1: later bytes that had arrived out of order may have become readable with it. */
	__u16 more;
	__u16 unaccepted; /* 1: the connection was not accepted yet */
};

struct record_accepted {
	struct record head; /* .tid: 0 */
	__u64 socket;
};

enum held_reason {
	HELD_UNKNOWN,
	/* Less than a segment: Nagle's algorithm awaits the peer's ACK of what was sent before. */
	HELD_NAGLE,
	HELD_CORK,       /* less than a segment: TCP_CORK, or MSG_MORE */
	HELD_WINDOW,     /* the peer's receive window is full */
	HELD_CONGESTION, /* the congestion window is full */
	HELD_REASONS,
};

/* All bytes that calls had left in a socket were given to the network device, or discarded. */
struct record_departure {
	struct record head; /* .tid: 0 */
	__u64 socket;
	__u32 inode;
	__u32 position; /* the sequence number behind them */
	__u32 bytes;    /* so many were held by the last of these calls */
	__u8 reason;    /* enum held_reason, at the end of that call */
	__u8 discarded; /* the connection ended before */
	/* They had left before, unseen: in the moment in which that call returned. */
	__u8 at_once;
	__u8 reserved;
};

enum unseen {
	UNSEEN_IO_URING, /* bytes that pass through io_uring */
	UNSEEN_TLS,      /* an encrypted connection */
	UNSEEN_OTHER,    /* an unknown protocol */
};

struct record_unseen {
	struct record head; /* .site: enum unseen */
	__u64 socket;
	__u32 inode;
	__u32 reserved;
};

#define RECORD_USER_FRAMES 96
#define RECORD_KERNEL_FRAMES 32

/*
 * A word for each frame follows, the innermost one first: the addresses of n_user frames, then for
 * n_kernel frames record_kernel_name.number, 0: its name was not sent. An address is that of an
 * instruction for the first frame, and for the others where the call returns to. Addresses of the
 * kernel do not leave it.
 */
struct record_stack {
	struct record head;
	__u16 n_user, n_kernel;
	__u16 cpu;
	__u16 script; /* include/record_script.h */
};

#define RECORD_KERNEL_NAME_SIZE 64

struct record_kernel_name {
	struct record head;
	__u32 number; /* in the capture, from 1; several can have the same name */
	__u32 reserved;
	char name[RECORD_KERNEL_NAME_SIZE];
};

#include "include/record_script.h"
#include "include/record_stack_copy.h"

/* Losses by cause; one per CPU, mapped by the reader. 64 bytes. */
struct record_counters {
	__u64 records; /* submitted */
	/* Records for which there was no room. */
	__u64 ring_full;
	/* Objects for which the table of seen objects had no room: their names are unknown. */
	__u64 table_full;
	__u64 read_failed; /* reads of the target's memory that failed */
	/* Calls on sockets for which the tables had no room. */
	__u64 flows_full;
	__u64 reserved[3];
};

enum record_name_form {
	NAME_VIEW = 0,     /* {bytes, pointer}: std::string_view, and TensorFlow's tstring */
	NAME_STRING = 1,   /* {pointer, bytes}: std::string of libstdc++ */
	NAME_INLINE = 2,   /* the characters themselves, NUL-terminated */
	NAME_C_STRING = 3, /* a pointer to such characters */
	/* NAME_STRING; if it is empty, the 64-bit number at the start of what the steps lead to. */
	NAME_STRING_OR_NUMBER = 4,
};

#define RECORD_STEPS 3
#define RECORD_STEP_MAX 4095
/* Of a target: one for each runtime whose operations have names. */
#define RECORD_LAYOUTS 8

/* Where an object has its name and its type: after following the words at steps, each an offset
 * from what the previous one points to. */
struct record_layout {
	__u32 name_offset;
	__u32 type_offset; /* 0: unknown so far */
	__u16 steps[RECORD_STEPS];
	__u8 n_steps;
	__u8 form; /* enum record_name_form */
};

/* The control words, mapped and written by the front; all programs check the window first. */
struct record_control {
	__u64 window_start; /* 0 start and stop: closed */
	__u64 window_stop;
	struct record_layout layout[RECORD_MAX_TARGETS][RECORD_LAYOUTS];
};

/* The processes of a capture, by index; written only by the broker, which has authorized them. */
struct record_targets {
	__u32 n;
	/* Threads of all users are shown by id and name; otherwise only the kernel's and those of
	 * the target's user. */
	__u32 shows_all_users;
	__u32 pids[RECORD_MAX_TARGETS];
	/*
	 * A time (CLOCK_MONOTONIC) at which the authorized process had the pid, and had not ended.
	 * A process that started later is another one with the same pid. 0: no process.
	 */
	__u64 alive_ns[RECORD_MAX_TARGETS];
};

/* The values that a path reads, in the order of their registers in the cookie. */
enum path_read {
	PATH_VALUE,
	PATH_TAG,
	PATH_VALUE2,
	PATH_READS,
};

#define RECORD_PATHS 256 /* of one capture */

/* How a probe comes from the registers of its cookie to its values: by n steps, each to the 64-bit
 * word at that offset from what the one before it has read. Written by the broker alone. */
struct record_path {
	__u16 steps[PATH_READS][RECORD_STEPS];
	__u8 n_steps[PATH_READS];
	__u8 reserved[3];
};

/* What a probe's entry does, in its cookie. */
enum record_action {
	ACTION_ENTRY = 0, /* value and tag are registers; to value offset is added */
	ACTION_READ = 1,  /* value and value2 may be behind pointers */
	/* Value is a named object, whose name is sent before its first use. */
	ACTION_OBJECT = 2,
	ACTION_OBJECT_FREE = 3, /* such an object is destroyed */
	/* Value is the address of a string, value2 its size in bytes; either may be behind a
	 * pointer. */
	ACTION_TEXT = 4,
	/* The same, but of a longer string the end is kept. */
	ACTION_TEXT_END = 5,
	/* Value is the address of a NUL-terminated string: the argument and its offset, or what
	 * that pointer points to. */
	ACTION_TEXT_NUL = 6,
	/* Value is the object of an encrypted connection, tag the address of decrypted bytes,
	 * value2 that of their number, if it is not returned; offset2 is enum plain_action. Sends
	 * no record of its own. */
	ACTION_PLAIN = 7,
};

/* What a function of a library for encryption does with the bytes of its caller. */
enum plain_action {
	PLAIN_READ,
	PLAIN_WRITE,
	PLAIN_CLOSE, /* this side ends the connection */
	PLAIN_FREE,  /* the object is free for another connection */
};

/* The general registers, by their numbers in machine code. The stack pointer holds no argument: its
 * number means none. */
enum record_register {
	REGISTER_RAX,
	REGISTER_RCX,
	REGISTER_RDX,
	REGISTER_RBX,
	REGISTER_RSP,
	REGISTER_RBP,
	REGISTER_RSI,
	REGISTER_RDI,
	REGISTER_R8,
	REGISTER_R9,
	REGISTER_R10,
	REGISTER_R11,
	REGISTER_R12,
	REGISTER_R13,
	REGISTER_R14,
	REGISTER_R15,
	REGISTER_COUNT,
	REGISTER_NONE = REGISTER_RSP,
};

/*
 * The attach cookie of a probe, made by user space, read by the program. Registers are enum
 * record_register.
 *   bits  0-7  site            8-11 target index     12-15 register of value     16-19 register of
 *         tag
 *   bits 20-23 register of value2     24-26 enum record_action
 *   bit  30 the probe is where the function returns; for the code that attaches it
 *   bit  31 value, value2 and tag are read by the path whose number is in offset; of the bits
 *           27 to 30 only 30 has a meaning then
 *   bits 27 value is *(register + offset)     28 value2 is *(register + offset2)     29 value is
 *                                             read once more, *(*(register + offset))
 *   bits 32-43 offset          44-55 offset2         56-63 bytes/8 by which the stack pointer at
 *                              the site is below the entry's
 */
#define COOKIE_FIELD(cookie, shift, bits) (((cookie) >> (shift)) & ((1ULL << (bits)) - 1))
#define COOKIE_SITE(c) COOKIE_FIELD(c, 0, 8)
#define COOKIE_TARGET(c) COOKIE_FIELD(c, 8, 4)
#define COOKIE_VALUE(c) COOKIE_FIELD(c, 12, 4)
#define COOKIE_TAG(c) COOKIE_FIELD(c, 16, 4)
#define COOKIE_VALUE2(c) COOKIE_FIELD(c, 20, 4)
#define COOKIE_REGISTER(c, read) COOKIE_FIELD(c, 12 + 4 * (read), 4) /* enum path_read */
#define COOKIE_ACTION(c) COOKIE_FIELD(c, 24, 3)
#define COOKIE_DEREF (1ULL << 27)
#define COOKIE_DEREF2 (1ULL << 28)
#define COOKIE_DEREF_AGAIN (1ULL << 29)
#define COOKIE_RETURN (1ULL << 30)
#define COOKIE_PATH (1ULL << 31)
#define COOKIE_OFFSET_SHIFT 32
#define COOKIE_OFFSET(c) COOKIE_FIELD(c, COOKIE_OFFSET_SHIFT, 12)
#define COOKIE_OFFSET2(c) COOKIE_FIELD(c, 44, 12)
#define COOKIE_STACK8(c) COOKIE_FIELD(c, 56, 8)
#define COOKIE_STACK_MAX (255 * 8)
/* The same fields without their flags, combined. */
#define COOKIE_MAKE(site, target, value, tag, value2, action, offset, offset2, stack)              \
	((__u64)(site) | (__u64)(target) << 8 | (__u64)(value) << 12 | (__u64)(tag) << 16 |        \
	 (__u64)(value2) << 20 | (__u64)(action) << 24 | (__u64)(offset) << 32 |                   \
	 (__u64)(offset2) << 44 | (__u64)((stack) / 8) << 56)
/* ACTION_OBJECT has no second value: this selects the layout of its object among its target's. */
#define COOKIE_LAYOUT(c) (COOKIE_OFFSET2(c) % RECORD_LAYOUTS)

_Static_assert(sizeof(struct record) == 16, "record header");
_Static_assert(sizeof(struct record_probe) == 32, "probe record");
_Static_assert(sizeof(struct record_probe2) == 40, "probe record with two values");
_Static_assert(sizeof(struct record_text) == 136, "probe record with a string");
_Static_assert(sizeof(struct record_switch) == 32, "switch record");
_Static_assert(sizeof(struct record_wake) == 24, "wake record");
_Static_assert(sizeof(struct record_thread) == 40, "thread record");
_Static_assert(sizeof(struct record_quota) == 808, "quota record");
_Static_assert(sizeof(struct record_message) == 64, "message record");
_Static_assert(sizeof(struct record_headers) == 104, "headers record");
_Static_assert(sizeof(struct record_field) % 8 == 0, "field record");
_Static_assert(sizeof(struct record_accepted) == 24, "accepted record");
_Static_assert(sizeof(struct record_ready) == 32 && sizeof(struct record_unseen) == 32,
	       "socket records");
_Static_assert(sizeof(struct record_name) % 8 == 0, "name record");
_Static_assert(sizeof(struct record_stack) == 24, "stack record");
_Static_assert(24 + 8 * (RECORD_USER_FRAMES + RECORD_KERNEL_FRAMES + RECORD_SCRIPT_FRAMES +
			 SCRIPT_RANGES) <=
		       255 * 8,
	       "the size of a stack record fits into its head");
_Static_assert(sizeof(struct record_kernel_name) % 8 == 0, "kernel name record");
_Static_assert(sizeof(struct record_object) % 8 == 0, "object record");
_Static_assert(sizeof(struct record_counters) == 64, "counters");
_Static_assert(sizeof(struct record_path) == 24, "path");
