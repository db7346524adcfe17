/* SPDX-License-Identifier: Apache-2.0 */
/* Connections, and the requests on them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/correlate/http/fields.h"
#include "daemon/correlate/http/http1.h"
#include "daemon/correlate/http/http2.h"
#include "include/record_types.h"
#include "lib/base/map.h"

struct correlator;

#define CONNECTIONS_MAX (1u << 18)

/* Bytes were read in which unseen requests may have begun. */
enum passed {
	PASSED_NONE,
	PASSED_FIRST, /* the first bytes of the window, perhaps of an HTTP/1 request that had begun
			 before */
	PASSED_ANY,
};

struct connection {
	uint32_t inode;
	uint32_t process;
	uint32_t n_requests; /* requests that were read */
	uint32_t n_open;     /* requests that have not ended */
	bool server, client, open;
	/* Encrypted bytes were seen at its socket; decrypted ones were. */
	bool encrypted, decrypted;
	bool at_library;          /* it is one of gRPC's library; its socket is unknown */
	uint8_t passed;           /* enum passed */
	uint32_t ambiguous_until; /* requests before this index are, as far as they are its */
	uint32_t first_held;      /* request whose answer is in the socket; NO_REQUEST */
	uint64_t last_ns;         /* when a message last passed */
	struct connection_fields fields; /* fields.c */
	struct http1_connection http1;   /* http1.c */
	struct http2_connection http2;   /* http2.c */
};

/* Zeros at first. */
struct connections {
	struct connection *list;
	uint64_t size;
	uint32_t n;
	struct map of_socket;
	uint32_t n_encrypted[RECORD_MAX_TARGETS]; /* by process: those that are not decrypted */
	uint64_t until_ns;
};

/* Valid until the next call of connection_get(). */
static inline struct connection *connections_get(const struct connections *c, uint32_t connection)
{
	return &c->list[connection];
}

/* HTTP/2: whether the request of a stream was not read, although an earlier and a later one were.
 */
static inline bool connection_skipped(const struct connection *conn, uint32_t stream)
{
	return conn->n_requests && stream > conn->http2.first_stream &&
	       stream < conn->http2.last_stream && !conn->passed;
}

static inline uint32_t connections_count(const struct connections *c)
{
	return c->n;
}

/* A key for a socket: any number but the one that maps reserve. */
static inline uint64_t connections_socket_key(uint64_t socket)
{
	return socket == UINT64_MAX ? 0 : socket;
}

/* Whether an encrypted connection of the process was seen that was not decrypted. */
static inline bool connections_have_encrypted(const struct connections *c, uint32_t process)
{
	return process < RECORD_MAX_TARGETS && c->n_encrypted[process];
}

/* Until when sockets were observed; 0: they still are. */
static inline uint64_t connections_until(const struct connections *c)
{
	return c->until_ns;
}

/* They are not after that time. The first call counts. */
void connections_end(struct connections *c, uint64_t time);

/* Of a process. An object without a socket is that of one of the sockets with encrypted bytes. */
struct encrypted_connections {
	uint64_t sockets, objects, decrypted, at_library;
};

/* By process. */
void connections_count_encrypted(const struct connections *c,
				 struct encrypted_connections ret[RECORD_MAX_TARGETS]);
void connections_done(struct connections *c);

/* Whether a count of messages or bytes is lower than another one; counts wrap. */
static inline bool is_behind(uint32_t number, uint32_t other)
{
	return (int32_t)(number - other) < 0;
}

/* The connection of a socket, which is made when that is new: index; NO_REQUEST: no room. */
uint32_t connection_get(struct correlator *c, uint64_t socket, uint32_t inode, uint8_t target,
			uint64_t time);
/* A connection of that process without a socket: index; NO_REQUEST: no room. */
uint32_t connection_add(struct correlator *c, uint32_t process);
/* Encrypted bytes were seen at its socket. */
void connection_note_encrypted(struct correlator *c, uint32_t connection);
/* Its decrypted bytes were seen. */
void connection_note_decrypted(struct correlator *c, uint32_t connection);
/* Ends all open requests of a connection; flags: enum request_flag, added to each. */
void connection_end_requests(struct correlator *c, uint32_t connection, uint64_t time,
			     unsigned flags);
/* The requests of the connection so far are ambiguous. */
void connection_make_ambiguous(struct correlator *c, uint32_t connection);
void connection_close(struct correlator *c, uint32_t connection, uint64_t time, unsigned flags);
/* A new request; NO_REQUEST: no room. */
uint32_t request_add(struct correlator *c, uint32_t connection, uint64_t start);
/* The record of a call at a socket has been handled. */
void connection_note_call(struct correlator *c, const struct record_message *m);
/* Of the record of its first bytes: the sequence number of a message's first byte. */
uint32_t message_first_position(const struct record_message *m);
/* Its first bytes were read. */
void request_begin(struct correlator *c, uint32_t request, const struct record_message *m,
		   uint8_t protocol);
/* Its last byte was read. */
void request_read(struct correlator *c, uint32_t request, const struct record_message *m);
/* The first byte of its answer was written. */
void request_answer(struct correlator *c, uint32_t request, const struct record_message *m);
/*
 * Adds a request of which only the answer was seen. before: it is not among what was read since the
 * window opened; then it was read earlier, unless records were lost.
 */
uint32_t request_add_unread(struct correlator *c, uint32_t connection,
			    const struct record_message *m, uint8_t protocol, bool before);
/* The request ends at that time; flags: enum request_flag, added to it. */
void request_end(struct correlator *c, uint32_t request, uint64_t end, unsigned flags);
/* The same, for one at the library: library_requests_point() has passed it to finished_add(), if it
 * was answered. */
void request_end_counted(struct correlator *c, uint32_t request, uint64_t end, unsigned flags);
/* The last byte of its answer was written: it ends, or, if that is still in the socket, once it has
 * left. */
void request_sent(struct correlator *c, uint32_t request, const struct record_message *m,
		  unsigned flags);
void connection_on_departure(struct correlator *c, const struct record_departure *d);
/* The thread that read or wrote a message. */
uint32_t message_thread(struct correlator *c, const struct record_message *m);
