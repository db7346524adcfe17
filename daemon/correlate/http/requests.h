/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests that pass through the sockets of the targets, and whose work each run is. Used
 * within this folder only.
 *
 *   messages.c     parts of HTTP messages in, requests with their times out (messages.h)
 *   attribution.c  which request a run is of
 *   streams.c      the same by the objects that gRPC's library has for streams
 *   crossing.c     where that can be meant otherwise
 */
#pragma once

#include "daemon/timeline/timeline.h"
#include "include/record_types.h"
#include "lib/base/map.h"

struct correlator;

#define NO_REQUEST UINT32_MAX
/* 300 bytes each with what is kept beside it. */
#define REQUESTS_MAX (1u << 20)

/* What is kept of a request until the window closes. */
struct request_state {
	uint32_t connection; /* index */
	uint32_t next;       /* HTTP/1: the next one of the connection that is not answered */
	uint32_t ordinal;    /* HTTP/1 */
	bool read, answering, done;
	bool doubtful;       /* nothing is said of its runs */
	bool has_object;     /* gRPC's library made one for it */
	bool handed;         /* its runs are known by that */
	bool came_before;    /* its bytes may have come before the window */
	uint32_t came_until; /* the sequence number behind those that came with its first one */
	uint64_t since_ns;   /* what is lost from then on may change what is known of it */
	bool waits;          /* for a run; its neighbors in that list, NO_REQUEST: none */
	uint32_t waits_before, waits_behind;
	uint32_t n_inferred; /* of its runs */
	uint64_t last_run;   /* index of the latest one's span */
};

#define READY_MAX 16
#define FIELDS_MAX 128

/* A field that a connection's table holds. */
struct known_field {
	uint32_t number;
	uint8_t name; /* enum record_field_name */
	bool set;
	uint32_t text; /* index into texts */
};

/* The fields of one direction. */
struct fields {
	struct known_field known[FIELDS_MAX]; /* the latest, by their number modulo FIELDS_MAX */
	/* Literals of the block that is coming. */
	uint32_t stream, pending[FIELD_REQUEST_LINE + 1]; /* TEXT_NONE */
};

/* Bytes were read in which requests may have begun that nobody saw. */
enum passed {
	PASSED_NONE,
	PASSED_FIRST, /* the first ones of the window, and of an HTTP/1 request perhaps that had
			 begun */
	PASSED_ANY,
};

struct connection {
	uint64_t socket, number;
	uint32_t inode;
	uint32_t process;
	uint32_t first, last;   /* HTTP/1: requests that are not answered, the oldest first */
	uint32_t reading;       /* HTTP/1: the request that is being read */
	uint32_t n_requests;    /* that were read */
	uint32_t first_ordinal; /* of the first one; HTTP/2: its stream */
	uint32_t read_ordinal, written_ordinal; /* HTTP/1: of the last message; 0: none since the
						   window opened. HTTP/2: the last stream read */
	uint64_t read_ns, written_ns;           /* HTTP/1: when that was */
	uint32_t offset;  /* HTTP/1: from a request's ordinal to its answer's */
	uint32_t ahead;   /* HTTP/1: answers for which no request was read, since the last one that
			     was */
	bool counts_lost; /* HTTP/1: the offset is not known */
	uint32_t n_open;
	bool server, client, open;
	uint8_t passed;        /* enum passed */
	bool has_transport;    /* gRPC's library has made an object for it, or may have */
	uint64_t last_ns;      /* something last passed */
	struct fields *fields; /* HTTP/2: two, one for each direction; NULL: none yet */
	uint32_t line;         /* HTTP/1: of the request that begins; TEXT_NONE */
};

/* When bytes came to a socket. */
struct arrivals {
	struct {
		uint64_t time;
		uint32_t position;
		bool more; /* bytes behind it may have come, too */
	} entries[READY_MAX];
	unsigned n; /* so far */
};

/* What is known of a thread's requests. */
#define THREAD_RUNS_MAX 32
#define THREAD_REQUESTS_MAX 16
#define STREAMS_TAKEN_MAX 8
struct thread_requests {
	uint64_t runs[THREAD_RUNS_MAX]; /* outermost ones, that are nobody's yet: since it last
					   wrote an answer's beginning */
	uint32_t n_runs;
	uint32_t read[THREAD_REQUESTS_MAX]; /* requests that it read and that are not answered */
	uint32_t n_read;
	uint32_t written[THREAD_REQUESTS_MAX]; /* requests whose answer it began since its last run
						*/
	uint32_t n_written;
	bool overflow;        /* there were more of them */
	uint32_t last_object; /* index + 1 of the stream's object of which it wanted something last;
				 0: none */
	uint32_t handed; /* the same, when that was to send its answer and nothing came since */
	uint32_t taken[STREAMS_TAKEN_MAX], n_taken; /* indexes of objects of which it wanted
						       something, and which are not answered */
	uint64_t since[THREAD_RUNS_MAX]; /* outermost runs, since it took up a stream or had the
					    answer of one */
	uint32_t n_since;
	bool since_overflow;
	uint32_t n_answered; /* answers that it began, each the only one after a run of its own */
	uint64_t woken_ns;   /* it was last woken */
	uint32_t woken_by;   /* THREAD_NONE: not known */
	bool ran;            /* since then */
	bool is_worker, is_reader; /* it has done runs; has read requests */
	bool writes_others;        /* it has begun answers that no run of its own led to */
};

/* An object of gRPC's library for a connection. */
struct transport {
	uint32_t last_stream;
	uint32_t connection;   /* index + 1, when that is known; 0 */
	uint32_t first_stream; /* of those that were seen */
	bool doubtful;         /* it can be more than one */
};

/* Its object for a stream. */
struct stream_object {
	uint64_t time; /* it was made */
	uint32_t transport, stream;
	bool ended; /* it was told of the end of its answer */
};

/* A run whose thread then had the answer of a stream. */
struct handed_run {
	uint64_t span, time; /* it had it by then */
	uint32_t object;
	bool taken; /* the thread had taken the stream up before the run, and no other one */
};

struct streams {
	struct transport *transports;
	struct stream_object *objects;
	struct handed_run *runs;
	uint64_t transports_size, objects_size, runs_size;
	uint32_t n_transports, n_objects, n_runs;
	struct map transport_at, object_at; /* by address */
};

/* Requests that were read and have no run yet. */
struct waiting {
	uint32_t first, n;
};

struct requests {
	struct streams streams;
	struct request *list;
	struct request_state *states; /* beside list */
	uint64_t size;
	uint32_t n;
	struct connection *connections;
	uint64_t connections_size;
	uint32_t n_connections;
	struct arrivals *arrivals;
	uint64_t arrivals_size;
	uint32_t n_arrivals;
	struct map connection_of_socket, arrivals_of_socket, request_of_stream;
	struct thread_requests *threads; /* beside the timeline's */
	uint64_t threads_size;
	struct waiting waiting[RECORD_MAX_TARGETS]; /* by process */
	bool at_sockets[RECORD_MAX_TARGETS];        /* by process: there are any */
	uint64_t n_ready;                           /* times that bytes were seen coming */
	uint64_t n_left_out;
	uint64_t n_unseen[UNSEEN_OTHER + 1];
	uint64_t n_unknown_role; /* messages on connections of which nobody knows who serves */
};

int requests_new(struct requests **ret);
struct requests *requests_free(struct requests *r);

#define CONNECTIONS_MAX (1u << 18)

/* The key of a socket in connection_of_socket and arrivals_of_socket. */
uint64_t requests_socket_key(uint64_t socket);
/* The key of a stream in request_of_stream. */
uint64_t requests_stream_key(const struct connection *conn, uint32_t stream);
/* The request of an HTTP/2 connection with this stream's number; NO_REQUEST. */
uint32_t requests_find_stream(const struct requests *r, uint32_t connection, uint32_t stream);
/* A handler, or a mark, has ended that is a request of its own: it counts as finished if it passes
 * the filter. */
void requests_note_finished(struct correlator *c, uint64_t span);
