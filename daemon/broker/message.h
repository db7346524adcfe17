/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front's requests to the broker: one fixed-size message and its answer, over a SOCK_SEQPACKET
 * pair, with descriptors passed along. Ids of captures and files mean nothing to a later broker.
 * The broker trusts nothing in a request: identities come from the kernel, ids are checked against
 * its own tables.
 *
 * An answer repeats the type; result is 0 or a negative errno, in which case text holds the remedy.
 */
#pragma once

#include <stdint.h>

#include "daemon/broker/authority.h"
#include "daemon/broker/limits.h"
#include "daemon/plan/plan.h"

enum broker_request {
	BROKER_NONE,
	/* In: index of a listener. out: fd of the next connection, id of the client, peer; -EAGAIN:
	 * none. */
	BROKER_ACCEPT,
	/* In: id of a client, name: in its certificate. Out: peer; -ENOENT: no user has it. */
	BROKER_CERTIFY,
	/* In: id of the client, pid: whether it may profile the process. Out: uid: its owner,
	 * ceiling; -EACCES, with the reason; -ECANCELED: the client has gone. */
	BROKER_MAY,
	/* In: index of a bound listener: starts to listen. */
	BROKER_LISTEN,
	/* In: the same: stops listening; the socket stays bound. */
	BROKER_UNLISTEN,
	/* In: id. */
	BROKER_CLIENT_GONE,
	/* In: id of a client that an earlier broker accepted, fd of its connection. -EINVAL: it is
	 * not a client any more. */
	BROKER_RETURN,
	/* In: id of a client. Out: peer, by the rules of now; -ECANCELED: the client has gone. */
	BROKER_PEER,
	/* In: pid. out: fd of its maps text, uid. */
	BROKER_MAPS,
	/* In: pid, start and end of a mapping. out: id of the file, opened. */
	BROKER_OPEN,
	/* In: id of a file, plan. out: fd of the plan (daemon/plan/proof.h), plan; -EINPROGRESS:
	 * the file is being read, ask again soon. */
	BROKER_PLAN,
	/* In: id of a file, fd of questions (lib/elf/functions.h). Out: -EINPROGRESS, until the
	 * same request without questions has fd: the answers. */
	BROKER_FUNCTIONS,
	/* In: id of a file. */
	BROKER_CLOSE,
	/* In: pid. out: birth. */
	BROKER_BIRTH,
	/* Out: index: enum attach_mode. */
	BROKER_MODE,
	/* In: index: enum broker_state, which the service manager is notified of. */
	BROKER_NOTIFY,
	/* From here on they take time, and have a line of their own (broker_line_of()). */
	/* In: id of the client, index: 1 if other users may get what is recorded, kinds: bits of
	 * enum probe_kind, of those that have programs of their own, count: how often KIND_STACKS
	 * samples a CPU in a second, kind: bits of those that BROKER_RESUME may attach again. Out:
	 * id of the capture, kinds: those that the kernel accepts, index: 1 if every system call
	 * becomes slower, fds: control, counters, rings. */
	BROKER_CAPTURE,
	/* In: id of the capture, pid. out: index of the target in the capture. */
	BROKER_TARGET,
	/* In: id of the capture, index, file, sites: those of the file's plan that are to be
	 * probed. */
	BROKER_SITES,
	/* In: id of the capture. Out: count of links; index: a bit for each target that was refused
	 * and is left out; kinds: a bit for each kind that is. */
	BROKER_ATTACH,
	/* In: id of the capture, index: detaches everything from a target. */
	BROKER_FORGET,
	/* In: id of the capture: puts a record of every living thread of the targets into the
	 * rings. */
	BROKER_NAME_THREADS,
	/* In: id of the capture, kind: detaches everything of this kind, soon. */
	BROKER_SHED,
	/* In: id of the capture, kind: attaches what was shed. -EAGAIN: it is still being
	 * detached. */
	BROKER_RESUME,
	/* In: id of the capture, index, name, "": the first. out: name of the next module that XLA
	 * wrote, fd; -ENODATA, -ENOENT: none. */
	BROKER_MODULE,
	/* In: id of the capture: detaches and forgets it. */
	BROKER_END,
	/* Out: calibration. */
	BROKER_CALIBRATE,
	/* In: index of a finding, from 0, pid. out: finding, pid: 0 if it is about the host;
	 * -ENOENT: no more. */
	BROKER_PREFLIGHT,
	/* In: name of a trigger, pid. Out: fd, to write its snapshot to. -EALREADY: too soon after
	 * its last one; -ENOENT: there is no such trigger any more. */
	BROKER_SNAPSHOT,
	/* In: the same name, count: 1 if what was begun is complete, 0: it is forgotten; id of the
	 * capture that it is of. Out: name of the file, start: its size. */
	BROKER_SNAPSHOT_END,
};

/* The front has two lines to the broker, each with one request at a time. */
enum broker_line {
	BROKER_LINE_QUICK, /* the event loop's */
	BROKER_LINE_CAPTURES,
	BROKER_LINES,
};

static inline enum broker_line broker_line_of(uint32_t type)
{
	return type >= BROKER_CAPTURE ? BROKER_LINE_CAPTURES : BROKER_LINE_QUICK;
}

enum broker_state {
	BROKER_STATE_READY,
	BROKER_STATE_STOPPING,
	BROKER_STATE_ALIVE,
	/* From the broker itself: the front reads its configuration again. */
	BROKER_STATE_RELOADED,
};

/* In place of a client's id: root configured the daemon to capture. */
#define BROKER_DAEMON UINT32_MAX

struct broker_file {
	uint64_t device, inode, size;
};

struct broker_plan {
	/* In: the packs, as pack_set_get(). */
	uint64_t packs;
	uint32_t wanted; /* In: enum plan_wanted */
	/* Out: the file was planned before. */
	uint32_t known;
};

/* A bit for each site of a plan. */
struct broker_sites {
	uint64_t words[PLAN_SITES_MAX / 64];
};

enum nop5_result {
	NOP5_UNKNOWN,
	NOP5_SAFE,
	/* A probe on a 5-byte nop inside a leaf function overwrites its red zone. */
	NOP5_CORRUPTS,
};

/* What a hit costs the thread that executes it, including its record. */
struct broker_calibration {
	/* A probe on an instruction that the kernel emulates. */
	uint32_t emulated_ns;
	uint32_t stepped_ns; /* on one that it single-steps */
	/* A record of the scheduler programs: a switch, or a wake-up. */
	uint32_t switch_ns;
	/* A call on a socket that passes a message, with its record. */
	uint32_t call_ns;
	/* Any system call of any process, while sockets are followed. */
	uint32_t any_call_ns;
	/* Until the probes are gone; if they are perf events, until one of them is: they are
	 * removed one after the other. */
	uint32_t detach_us;
	uint32_t nop5; /* enum nop5_result */
	/* Several measurements agreed; otherwise it should be measured again later. */
	uint32_t steady;
};

/* How uprobes are attached on this kernel. */
enum attach_mode {
	/* One link for many sites, in one process only; detaching takes about 30 ms. */
	ATTACH_MULTI,
	/* One perf event per site; detaching takes about 100 ms each: kernels before 6.6. */
	ATTACH_PERF_EVENT,
};

enum finding_severity {
	FINDING_OK,
	FINDING_NOTE,    /* information only */
	FINDING_WARNING, /* something costs more, or is not shown */
	FINDING_ERROR,   /* nothing can be captured */
};

/* When a process began: nanoseconds of CLOCK_MONOTONIC; 0: not seen. */
struct birth {
	/* It executed this program, or was forked by a process that had. */
	uint64_t executed_ns;
	uint64_t first_mapped_ns; /* it mapped the first file of a runtime */
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
		struct broker_file opened;
		struct broker_plan plan;
		struct broker_sites sites;
		struct broker_calibration calibration;
		struct broker_finding finding;
		char name[256]; /* of a file, or in a certificate */
		struct birth birth;
		struct authority_peer peer;
		struct authority_ceiling ceiling;
	};
};

/* What the broker sends to the front without a request, on a socket pair of its own. */
enum broker_event_type {
	/* A process mapped code that may be a runtime's, or is one that was a target, or a child of
	 * one: look at it. */
	BROKER_EVENT_LOOK,
	/* A process that may be a target became another program; BROKER_EVENT_LOOK follows. */
	BROKER_EVENT_EXECUTED,
	/* Some of these events were missed: look at every process. */
	BROKER_EVENT_RESCAN,
	BROKER_EVENT_STOP, /* a signal requests the daemon to end */
	/* The configuration is to be read again; with the descriptors of the files. */
	BROKER_EVENT_RELOAD,
};

/* The files of BROKER_EVENT_RELOAD, in the order of their descriptors. */
enum broker_reload {
	BROKER_RELOAD_CONFIG,
	BROKER_RELOAD_CERTIFICATE,
	BROKER_RELOAD_KEY,
	BROKER_RELOAD_CLIENT_CA,
	BROKER_RELOAD_REVOKED,
	BROKER_RELOAD_COUNT,
};

struct broker_event {
	uint32_t type;
	uint32_t pid;
	/* BROKER_EVENT_RELOAD: a bit for each file whose descriptor is passed. */
	uint32_t files;
};
