/* SPDX-License-Identifier: Apache-2.0 */
/* A connection of the load client: requests out, answers in, over HTTP/1.1 or HTTP/2. Times are
 * CLOCK_MONOTONIC. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/servers/buffer.h"
#include "tests/servers/model.h"

/* A request and what became of it. */
struct exchange {
	uint64_t id;
	uint32_t client; /* index of who sent it */
	uint16_t local_port;
	uint32_t stream;     /* HTTP/2's, or which request of its connection, from 1 */
	uint64_t send_ns;    /* before its first byte was sent */
	uint64_t arrive_ns;  /* when the answer's last byte came to this machine; the client may be
				late to receive it */
	uint64_t receive_ns; /* after the answer's last byte was received */
	int status;          /* HTTP's; 0: no answer */
	int grpc_status;     /* -1: none */
	bool batched;
	float batch[2]; /* the largest input and the rows of its batch, as stated in the answer */
	const char *error;     /* what is wrong with it, NULL when it is right */
	bool warm;             /* sent before the load began; it is not counted */
	bool slow;             /* its answer is read with a pause */
	struct exchange *next; /* on its connection */
	void *call;            /* the protocol's */
};

struct link_options {
	struct sockaddr_in address;
	const char *host; /* as a header */
	const char *model;
	bool grpc;
	bool chunked;
	long rows;  /* of one request, each holding its id */
	long width; /* values in a row; 0: rows are plain numbers */
	long slow_read_ms;
};

struct link;

struct link_protocol {
	int (*open)(struct link *l);
	void (*close)(struct link *l);
	/* Puts the request into the output; l->outstanding has it already. */
	int (*request)(struct link *l, struct exchange *e);
	/* Takes in bytes; every answer that is whole goes to link_answered(). -EPROTO, -ENOMEM. */
	int (*receive)(struct link *l, const uint8_t *bytes, size_t size);
	/* The peer has closed. */
	void (*ended)(struct link *l);
};

extern const struct link_protocol link_http, link_grpc;

struct link {
	const struct link_options *options;
	const struct link_protocol *protocol;
	int fd; /* -1: not connected */
	uint16_t local_port;
	uint32_t requests;                /* sent on this connection */
	uint64_t arrived_ns, received_ns; /* of the latest bytes */
	uint64_t pause_until_ns;          /* nothing is read before */
	bool paused_once;                 /* for the answer that is being read */
	bool close;                       /* no request may follow on it */
	struct buffer input, output;
	struct exchange *outstanding, **last;             /* in the order they were sent */
	void *session;                                    /* the protocol's */
	void (*answered)(void *user, struct exchange *e); /* owns it from then on */
	void *user;
};

/* Connects. Returns 0 or a negative errno. */
int link_open(struct link *l);
/* Closes; what is outstanding is answered with an error. */
void link_close(struct link *l, const char *error);

/* Sends a request, which the link owns until it is answered; unless it is held back for those that
 * follow. */
int link_request(struct link *l, struct exchange *e, bool hold);
/* Gives the output to the socket; what it does not take waits for the next call. */
int link_flush(struct link *l);
/* Reads what there is. -ECONNRESET when the peer has closed. */
int link_receive(struct link *l);

/* For the protocols: takes the exchange off the link, checks its tensor (NULL: there is none) and
 * passes it on. */
void link_answered(struct link *l, struct exchange *e, const struct tensor *answer);
/* The input of a request. Returns 0 or -ENOMEM; the caller frees the values. */
int link_tensor(const struct link *l, const struct exchange *e, struct tensor *ret);

uint64_t link_now_ns(void);
