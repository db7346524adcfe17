/*
 * What the front asks of the broker: one fixed-size message and its answer, over a SOCK_SEQPACKET pair, with descriptors passed
 * along. The broker trusts nothing in a request: identities come from the kernel, numbers are checked against its own tables.
 *
 * An answer repeats the type; result is 0 or a negative errno, and text then says what to do about it.
 */
#pragma once

#include <stdint.h>

#include "daemon/broker/limits.h"

enum broker_request {
	BROKER_NONE,
	BROKER_ACCEPT,	     /* in: index of a listener. out: fd of the next connection, id of the client, uid; -EAGAIN: none */
	BROKER_LISTEN,	     /* in: index of a listener that is bound: opens it */
	BROKER_UNLISTEN,     /* in: the same: closes it again; it stays bound */
	BROKER_CLIENT_GONE,  /* in: id */
	BROKER_MAPS,	     /* in: pid. out: fd of its maps text, uid */
	BROKER_OPEN,	     /* in: pid, start and end of a mapping. out: id of the file, fd */
	BROKER_CLOSE,	     /* in: id of a file */
	BROKER_CAPTURE,	     /* in: id of the client, level. out: id of the capture, fds: control, counters, rings */
	BROKER_TARGET,	     /* in: id of the capture, pid. out: index of the target in the capture */
	BROKER_SITES,	     /* in: id of the capture, index, file, count and sites */
	BROKER_ATTACH,	     /* in: id of the capture. out: count of links */
	BROKER_NAME_THREADS, /* in: id of the capture: puts a record of every living thread of the targets into the rings */
	BROKER_END,	     /* in: id of the capture: detaches and forgets it */
};

struct broker_site {
	uint64_t offset; /* in the file */
	uint64_t cookie;
};

struct broker_message {
	uint32_t type; /* enum broker_request */
	int32_t result;
	uint32_t id;
	uint32_t pid;
	uint32_t uid;
	uint32_t index;
	uint32_t file;
	uint32_t level;
	uint32_t count;
	uint64_t start, end;
	char text[192];
	struct broker_site sites[BROKER_SITES_PER_MESSAGE];
};

/* What the broker tells the front unasked, on a pair of its own. */
enum broker_event_type {
	BROKER_EVENT_MAPPED, /* a process mapped code that may be a runtime's: look at it */
	BROKER_EVENT_RESCAN, /* some of these were missed: look at every process */
	BROKER_EVENT_STOP,   /* the daemon was told to end */
};

struct broker_event {
	uint32_t type;
	uint32_t pid;
};
