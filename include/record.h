/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernel side tells user space: records in ring buffers, and the words that both share by
 * mmap. Included by bpf/ and by daemon/, so it has no includes of its own: the includer has the
 * fixed-width types (vmlinux.h; user space includes record_types.h).
 *
 * Every record starts with struct record. Kinds are append-only; a reader skips a kind that it
 * does not know, by its size. Times are nanoseconds of CLOCK_MONOTONIC. Thread and process ids are
 * those of the initial pid namespace.
 */
#pragma once

#define RECORD_MAX_TARGETS 16 /* processes in one capture */
#define RECORD_COMM_SIZE 16   /* TASK_COMM_LEN */
#define RECORD_NAME_SIZE                                                                           \
	512 /* bytes of an object's name that are kept; longer ones are cut and flagged */
#define RECORD_TYPE_SIZE 96  /* likewise its type */
#define RECORD_CANDIDATES 10 /* string views looked at when an object's layout is not known */
#define RECORD_CANDIDATE_SIZE 200
#define RECORD_OBJECT_BYTES 384 /* of an object that are searched for string views */
#define RECORD_TEXT_SIZE 96     /* bytes of a function's string argument that are kept */
#define RECORD_MAX_RINGS 8
#define RECORD_MAX_CPUS 1024

enum record_kind {
	RECORD_NONE = 0,
	RECORD_PROBE = 1, /* struct record_probe: a probed function was entered; .site says which */
	RECORD_NAME =
		2, /* struct record_name: name and type of an object seen for the first time */
	RECORD_OBJECT =
		3, /* struct record_object: the same while the object's layout is not known */
	RECORD_SWITCH = 4, /* struct record_switch: a CPU went from one thread to another */
	RECORD_WAKE = 5,   /* struct record_wake: a thread of a target was woken */
	RECORD_THREAD = 6, /* struct record_thread: a thread of a target and its name, at the end of
			      the window */
	RECORD_EXIT = 7,   /* struct record_thread: a thread of a target ended */
	RECORD_EXEC = 8,   /* struct record_thread: a target became another program */
	RECORD_FORK = 9,   /* struct record_thread: a target made a thread; .tid is the new one */
	RECORD_FOREIGN = 10, /* struct record_thread: a thread of another process, that had a CPU
				which a target's thread wanted or left */
	RECORD_MESSAGE = 11, /* struct record_message or record_headers: part of a message passed
				through a socket of a target */
	RECORD_FIELD = 12, /* struct record_field: a literal field of an HTTP/2 header block, or the
			      line that an HTTP/1 message begins with */
	RECORD_READY =
		13, /* struct record_ready: bytes came to a socket on which a target serves */
	RECORD_UNSEEN =
		14,       /* struct record_unseen: something of a target that cannot be followed */
	RECORD_TEXT = 15, /* struct record_text: a probed function was entered with a string */
};

/* The head of every record. 16 bytes. */
struct record {
	__u64 time;
	__u32 tid; /* the thread that it is about */
	__u8 kind; /* enum record_kind */
	__u8 site; /* RECORD_PROBE, TEXT, NAME, OBJECT: the number that the attach cookie carried */
	__u8 size8; /* size of the whole record in units of 8 bytes, for the fixed-size kinds; 0 for
		       the others */
	__u8 target; /* RECORD_PROBE, NAME, OBJECT: index of the process in the capture */
};

struct record_probe {
	struct record head;
	__u32 stack; /* low half of the stack pointer as it was at the function's entry */
	__u32 tag;   /* low half of a second argument */
	__u64 value; /* an argument, or what it pointed to */
};

/* A probe that reads a second 64-bit value. */
struct record_probe2 {
	struct record_probe probe;
	__u64 value2;
};

/* A probe that reads a string: .value is where it lies. */
struct record_text {
	struct record_probe probe;
	__u32 size; /* that the target says; may exceed RECORD_TEXT_SIZE. 0: it could not be read */
	__u32 reserved;
	char text[RECORD_TEXT_SIZE];
};

struct record_name {
	struct record head;
	__u64 object;
	__u32 name_size; /* as the object says; may exceed RECORD_NAME_SIZE */
	__u32 type_size;
	char name[RECORD_NAME_SIZE];
	char type[RECORD_TYPE_SIZE];
};

struct record_candidate {
	__u32 offset; /* of the string view {size, pointer} in the object */
	__u32 size;   /* that it claims */
	char bytes[RECORD_CANDIDATE_SIZE];
};

struct record_object {
	struct record head;
	__u64 object;
	__u32 n_candidates;
	__u32 reserved;
	struct record_candidate candidates[RECORD_CANDIDATES];
};

enum record_switch_flag {
	SWITCH_OUT = 1 << 0,       /* .head.tid belongs to a target and left the CPU */
	SWITCH_IN = 1 << 1,        /* .next_tid belongs to a target and took it */
	SWITCH_PREEMPTED = 1 << 2, /* it left although it could run on */
};

struct record_switch {
	struct record head; /* .tid: who left */
	__u32 next_tid;
	__u16 cpu;
	__u16 flags;
	__u32 state;   /* of who left: TASK_* bits, 0 when runnable */
	__s32 syscall; /* that it was in, -1: none */
};

struct record_wake {
	struct record head;  /* .tid: who was woken */
	__u32 waker_tid;     /* who ran there; 0: the idle task */
	__s32 waker_syscall; /* that it was in, -1: none. An interrupt may have woken, and come upon
				it. */
};

struct record_thread {
	struct record head;
	__u32 pid;
	__u32 reserved;
	char comm[RECORD_COMM_SIZE];
};

enum message_direction {
	MESSAGE_READ,
	MESSAGE_WRITTEN,
};

enum message_protocol {
	MESSAGE_NEW, /* not known yet */
	MESSAGE_HTTP1,
	MESSAGE_HTTP2,
	MESSAGE_OTHER,
};

enum message_part {
	MESSAGE_FIRST = 1 << 0, /* HTTP/1: the message's first byte. HTTP/2: a frame's */
	MESSAGE_LAST =
		1 << 1, /* the last byte of the message; HTTP/2: of its stream in this direction */
	MESSAGE_IS_REQUEST = 1 << 2, /* HTTP/1: it began as a request does, not as a response */
	MESSAGE_LOST = 1 << 3, /* bytes passed unseen, or what was seen is no such message: what was
				  going on here cannot be followed */
	MESSAGE_CLOSED = 1 << 4,  /* the target closes the connection, or its own half of it: .began
				     is when bytes last passed */
	MESSAGE_SERVER = 1 << 5,  /* the connection was made to the target, not by it */
	MESSAGE_PREFACE = 1 << 6, /* HTTP/2: the connection's first bytes: header fields can be
				     followed from here on */
	MESSAGE_NO_FIELDS = 1 << 7, /* HTTP/2: a header block could not be followed: earlier fields
				       are not known any more */
	MESSAGE_ACCEPTED = 1 << 8,  /* the connection was accepted since the window opened */
	MESSAGE_PASSED = 1 << 9,    /* bytes were read in which nothing known begins, messages among
				       them perhaps: told once */
};

/* What a call passed of one message: 64 bytes. */
struct record_message {
	struct record head; /* .time: the call returned */
	__u64 began;        /* it was entered */
	__u64 socket; /* a number for the connection; it can be another's after this one was closed
		       */
	__u32 inode;  /* of the socket: tells those apart */
	__u32 position; /* TCP: the sequence number behind the last byte that this is about */
	__u32 stream;   /* HTTP/2 */
	__u32 bytes;    /* HTTP/1: of the message so far, head and body. HTTP/2: of the frame */
	__u16 local_port, peer_port; /* 0: no TCP */
	__u16 part;                  /* enum message_part */
	__u16 status;                /* HTTP/1: of a response; 0: none yet */
	__u8 direction;              /* enum message_direction */
	__u8 protocol;               /* enum message_protocol */
	__u8 type, flags;            /* HTTP/2: of the frame */
	__u32 ordinal; /* HTTP/1: which message of this direction, since it was first seen, from 1
			*/
};

#define RECORD_REFERENCES 14

/* A block of header fields. Fields that a table holds are named by how many were put into it before
 * them. */
struct record_headers {
	struct record_message message;
	__u32 inserted; /* fields put into the table of this direction until the block's end, since
			   it was first seen */
	__u8 status;    /* index of a static field :status, 0: none */
	__u8 method;    /* likewise :method */
	__u8 path;      /* likewise :path */
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
	__u32 number; /* of the field in the table, if it was put there; its low half is what refers
			 to it */
	__u16 size;   /* may exceed what is kept */
	__u8 direction;
	__u8 name;     /* enum record_field_name */
	__u8 inserted; /* it was put into the table */
	__u8 huffman;  /* text is in HPACK's Huffman code */
	__u8 reserved[6];
	char text[RECORD_FIELD_SIZE];
};

struct record_ready {
	struct record head; /* .tid: 0 */
	__u64 socket;
	__u32 position; /* the sequence number behind the last byte that came */
	__u32 more; /* 1: bytes behind it, that had come before their turn, may have become readable
		       with it */
};

enum unseen {
	UNSEEN_IO_URING, /* bytes that pass by io_uring */
	UNSEEN_TLS,      /* an encrypted connection */
	UNSEEN_OTHER,    /* a protocol that is not known */
};

struct record_unseen {
	struct record head; /* .site: enum unseen */
	__u64 socket;
	__u32 inode;
	__u32 reserved;
};

/* Losses by cause; one per CPU, mapped by the reader. 64 bytes. */
struct record_counters {
	__u64 records;    /* submitted */
	__u64 ring_full;  /* records that found no room */
	__u64 table_full; /* objects that found no room in the table of seen ones: their name is not
			     known */
	__u64 read_failed; /* reads of the target's memory that failed */
	__u64 flows_full;  /* calls on sockets for which the tables had no room */
	__u64 reserved[3];
};

enum record_name_form {
	NAME_VIEW = 0,   /* {bytes, pointer}: std::string_view, and TensorFlow's tstring */
	NAME_STRING = 1, /* {pointer, bytes}: std::string of libstdc++ */
};

#define RECORD_STEPS 3
#define RECORD_STEP_MAX 4095
#define RECORD_LAYOUTS 4 /* of a target: one for each runtime whose operations have names */

/* Where an object has its name and its type: behind the words at steps, each an offset from what
 * the one before it points to. */
struct record_layout {
	__u32 name_offset;
	__u32 type_offset; /* 0: not known yet */
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

/* The processes of a capture, by index; written by the broker alone, which has authorised them. */
struct record_targets {
	__u32 n;
	__u32 pids[RECORD_MAX_TARGETS];
};

/* What a probe's entry does, in its cookie. */
enum record_action {
	ACTION_ENTRY = 0,  /* value and tag are registers */
	ACTION_READ = 1,   /* value and value2 may be behind pointers */
	ACTION_OBJECT = 2, /* value is a named object, whose name is sent before its first use */
	ACTION_OBJECT_FREE = 3, /* such an object goes */
	ACTION_TEXT = 4, /* value is where a string lies, value2 its size in bytes; either may be
			    behind a pointer */
	ACTION_TEXT_END = 5, /* the same, and of a longer one its end is kept */
	ACTION_TEXT_NUL = 6, /* value is where a string lies that a NUL ends: the argument and its
				offset, or what is behind that pointer */
};

/* The general registers, by their numbers in machine code. The stack pointer holds no argument: its
 * number stands for none. */
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
 *   bit  30 the probe is where the function returns, which says who attaches it
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
#define COOKIE_ACTION(c) COOKIE_FIELD(c, 24, 3)
#define COOKIE_DEREF (1ULL << 27)
#define COOKIE_DEREF2 (1ULL << 28)
#define COOKIE_DEREF_AGAIN (1ULL << 29)
#define COOKIE_RETURN (1ULL << 30)
#define COOKIE_OFFSET(c) COOKIE_FIELD(c, 32, 12)
#define COOKIE_OFFSET2(c) COOKIE_FIELD(c, 44, 12)
#define COOKIE_STACK8(c) COOKIE_FIELD(c, 56, 8)
#define COOKIE_STACK_MAX (255 * 8)
/* The same fields without their flags, put together. */
#define COOKIE_MAKE(site, target, value, tag, value2, action, offset, offset2, stack)              \
	((__u64)(site) | (__u64)(target) << 8 | (__u64)(value) << 12 | (__u64)(tag) << 16 |        \
	 (__u64)(value2) << 20 | (__u64)(action) << 24 | (__u64)(offset) << 32 |                   \
	 (__u64)(offset2) << 44 | (__u64)((stack) / 8) << 56)
/* ACTION_OBJECT has no second value: which of its target's layouts its object has. */
#define COOKIE_LAYOUT(c) (COOKIE_OFFSET2(c) % RECORD_LAYOUTS)

_Static_assert(sizeof(struct record) == 16, "record header");
_Static_assert(sizeof(struct record_probe) == 32, "probe record");
_Static_assert(sizeof(struct record_probe2) == 40, "probe record with two values");
_Static_assert(sizeof(struct record_text) == 136, "probe record with a string");
_Static_assert(sizeof(struct record_switch) == 32, "switch record");
_Static_assert(sizeof(struct record_wake) == 24, "wake record");
_Static_assert(sizeof(struct record_thread) == 40, "thread record");
_Static_assert(sizeof(struct record_message) == 64, "message record");
_Static_assert(sizeof(struct record_headers) == 104, "headers record");
_Static_assert(sizeof(struct record_field) % 8 == 0, "field record");
_Static_assert(sizeof(struct record_ready) == 32 && sizeof(struct record_unseen) == 32,
	       "socket records");
_Static_assert(sizeof(struct record_name) % 8 == 0, "name record");
_Static_assert(sizeof(struct record_object) % 8 == 0, "object record");
_Static_assert(sizeof(struct record_counters) == 64, "counters");
