/* SPDX-License-Identifier: Apache-2.0 */
/* Connections, and the requests on them. */
#pragma once

#include "daemon/correlate/correlator.h"

/* Counts of messages, and of bytes, wrap. */
static inline bool is_behind(uint32_t number, uint32_t other)
{
	return (int32_t)(number - other) < 0;
}

/* The connection of a socket, a new one if that is new: index; NO_REQUEST: no room. */
uint32_t connection_get(struct correlator *c, uint64_t socket, uint32_t inode, uint8_t target,
			uint64_t time);
/* Ends everything that goes on at a connection; flags: enum request_flag of what it is then. */
void connection_end_requests(struct correlator *c, uint32_t connection, uint64_t time,
			     unsigned flags);
/* Nothing is said of the requests of the connection so far: what was taken for theirs may be
 * others'. */
void connection_doubt(struct correlator *c, uint32_t connection);
void connection_close(struct correlator *c, uint32_t connection, uint64_t time, unsigned flags);
/* A new request; NO_REQUEST: no room. */
uint32_t request_add(struct correlator *c, uint32_t connection, uint64_t start);
/* HTTP/2: its stream. */
void request_set_stream(struct correlator *c, uint32_t request, uint32_t stream);
/* Its first bytes were read; first_position: the sequence number of the first one. */
void request_begin(struct correlator *c, uint32_t request, const struct record_message *m,
		   uint32_t first_position, uint8_t protocol);
/* Its last byte was read. */
void request_read(struct correlator *c, uint32_t request, const struct record_message *m);
/* The first byte of its answer was written. */
void request_answer(struct correlator *c, uint32_t request, const struct record_message *m);
/*
 * An answer to what was not seen being read. before: nothing that was read can have been it since
 * the window opened; then it was read before that, unless records were lost.
 */
uint32_t request_unread(struct correlator *c, uint32_t connection, const struct record_message *m,
			uint8_t protocol, bool before);
/* It is over at that time. */
void request_end(struct correlator *c, uint32_t request, uint64_t end, unsigned flags);
/* The thread that passed a message. */
uint32_t message_thread(struct correlator *c, const struct record_message *m);
