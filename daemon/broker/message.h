/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the front asks of the broker: one fixed-size message and its answer, over a SOCK_SEQPACKET
 * pair, with descriptors passed along. The broker trusts nothing in a request: identities come from
 * the kernel, numbers are checked against its own tables.
 *
 * An answer repeats the type; result is 0 or a negative errno, and text then says what to do about
 * it.
 */
#pragma once

#include <stdint.h>

#include "daemon/broker/limits.h"

enum broker_request {
	BROKER_NONE,
	BROKER_ACCEPT, /* in: index of a listener. out: fd of the next connection, id of the client,
			  uid; -EAGAIN: none */
	BROKER_LISTEN, /* in: index of a listener that is bound: opens it */
	BROKER_UNLISTEN,    /* in: the same: closes it again; it stays bound */
	BROKER_CLIENT_GONE, /* in: id */
	BROKER_MAPS,        /* in: pid. out: fd of its maps text, uid */
	BROKER_OPEN,        /* in: pid, start and end of a mapping. out: id of the file, fd */
	BROKER_CLOSE,       /* in: id of a file */
	/* In: id of the client, kinds: bits of enum probe_kind, of those that have programs of
	 * their own. Out: id of the capture, kinds: those that the kernel takes, fds: control,
	 * counters, rings. */
	BROKER_CAPTURE,
	BROKER_TARGET, /* in: id of the capture, pid. out: index of the target in the capture */
	BROKER_SITES,  /* in: id of the capture, index, file, kind, count and sites */
	/* In: id of the capture. Out: count of links; index: a bit for each target that was refused
	   and is left out; kinds: a bit for each that is. */
	BROKER_ATTACH,
	BROKER_FORGET, /* in: id of the capture, index: takes away what there is of a target */
	BROKER_NAME_THREADS, /* in: id of the capture: puts a record of every living thread of the
				targets into the rings */
	BROKER_SHED,   /* in: id of the capture, kind: detaches what was attached of it, soon */
	BROKER_BIRTH,  /* in: pid. out: birth */
	BROKER_MODULE, /* in: id of the capture, index, name, "": the first. out: name of the next
			  module that XLA wrote, fd; -ENODATA, -ENOENT: none */
	BROKER_END,    /* in: id of the capture: detaches and forgets it */
	BROKER_MODE,   /* out: index: enum attach_mode */
	BROKER_CALIBRATE, /* out: calibration */
	BROKER_PREFLIGHT, /* in: index of a finding, from 0, pid. out: finding, pid: 0 when it is
			     about the host; -ENOENT: no more */
};

/* Instead of a client's id: what root configured the daemon to capture. */
#define BROKER_DAEMON UINT32_MAX

struct broker_site {
	uint64_t offset; /* in the file */
	uint64_t cookie;
	uint64_t semaphore; /* offset of a counter that the kernel increments while the probe is
			       there; 0: none */
	uint64_t note;      /* offset of the note in the file that says so of this site */
};

enum nop5_result {
	NOP5_UNKNOWN,
	NOP5_SAFE,
	NOP5_CORRUPTS, /* a probe on a 5-byte nop inside a leaf function overwrites its red zone */
};

/* What a hit costs the thread that runs into it, with its record. */
struct broker_calibration {
	uint32_t emulated_ns; /* a probe on an instruction that the kernel emulates */
	uint32_t stepped_ns;  /* on one that it single-steps */
	uint32_t switch_ns;   /* a record of the scheduler's programs: a switch, or a wake-up */
	uint32_t call_ns;     /* a call on a socket that passes a message, with its record */
	uint32_t any_call_ns; /* any system call of any process, while sockets are followed */
	uint32_t detach_us;   /* until the probes are gone; where they are perf events, until one of
				 them is: they go one after the other */
	uint32_t nop5;        /* enum nop5_result */
	uint32_t
		steady; /* several measurements agreed; else it is to be measured again some time */
};

/* How uprobes are attached here. */
enum attach_mode {
	ATTACH_MULTI,      /* one link for many sites, in one process only, gone in some 30 ms */
	ATTACH_PERF_EVENT, /* one perf event per site, gone in some 100 ms each: kernels before 6.6
			    */
};

enum finding_severity {
	FINDING_OK,
	FINDING_NOTE,    /* good to know */
	FINDING_WARNING, /* something is dearer, or not shown */
	FINDING_ERROR,   /* nothing can be captured */
};

/* When a process began: nanoseconds of CLOCK_MONOTONIC; 0: not seen. */
struct birth {
	uint64_t executed_ns;     /* it became this program, or was forked by one that was */
	uint64_t first_mapped_ns; /* it mapped the first of a runtime's files */
};

/* What the preflight found: one sentence, and one remedy. */
struct broker_finding {
	uint32_t severity; /* enum finding_severity */
	char code[32];     /* "no-btf": stable, for programs */
	char text[256];
	char remedy[256]; /* "": none needed */
};

struct broker_message {
	uint32_t type; /* enum broker_request */
	int32_t result;
	uint32_t id;
	uint32_t pid;
	uint32_t uid;
	uint32_t index;
	uint32_t file;
	uint32_t kinds;
	uint32_t count;
	uint32_t kind; /* enum probe_kind */
	uint64_t start, end;
	char text[192];
	union {
		struct broker_site sites[BROKER_SITES_PER_MESSAGE];
		struct broker_calibration calibration;
		struct broker_finding finding;
		char name[256]; /* of a file */
		struct birth birth;
	};
};

/* What the broker tells the front unasked, on a pair of its own. */
enum broker_event_type {
	BROKER_EVENT_LOOK, /* a process mapped code that may be a runtime's, or is one that was a
			      target, or a child of one: look at it */
	BROKER_EVENT_EXECUTED, /* a process that may be a target became another program;
				  BROKER_EVENT_LOOK follows */
	BROKER_EVENT_RESCAN,   /* some of these were missed: look at every process */
	BROKER_EVENT_STOP,     /* the daemon was told to end */
	BROKER_EVENT_RELOAD,   /* the configuration is to be read again; with the descriptors of the
				  files */
};

/* The files of BROKER_EVENT_RELOAD, in the order of their descriptors. */
enum broker_reload {
	BROKER_RELOAD_CONFIG,
	BROKER_RELOAD_CERTIFICATE,
	BROKER_RELOAD_KEY,
	BROKER_RELOAD_CLIENT_CA,
	BROKER_RELOAD_COUNT,
};

struct broker_event {
	uint32_t type;
	uint32_t pid;
	uint32_t files; /* BROKER_EVENT_RELOAD: a bit for each file whose descriptor comes along */
};
