/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How gRPC writes things into HTTP/2: the messages of a stream with their length prefix, and the
 * values of its headers. Bytes in, bytes out; no descriptor, no clock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A byte that says whether the message is compressed, then its size, big endian. */
#define GRPC_PREFIX_SIZE 5

/* Gets one message of a stream and owns its malloc'ed bytes; a negative value ends the call. */
typedef int (*grpc_message_fn)(uint8_t *bytes, size_t size, void *data);

void grpc_prefix_write(uint8_t prefix[static GRPC_PREFIX_SIZE], uint32_t size);

/*
 * Collects one message after the other from pieces of any size. Zeroed and with max_size set it is
 * ready. Memory grows with the bytes that came, not with the size that the prefix claims.
 */
struct grpc_reader {
	size_t max_size; /* of a message; a larger one is refused as soon as its prefix is there */
	uint8_t prefix[GRPC_PREFIX_SIZE];
	size_t n_prefix;
	bool compressed;
	uint8_t *bytes;
	size_t size, filled, allocated;
};

/*
 * Takes bytes up to the end of the current message, and returns how many it took (0 only when the
 * message is complete, or size is 0). -EBADMSG for a prefix that does not exist, -EMSGSIZE for a
 * message above max_size, -ENOMEM.
 */
ssize_t grpc_reader_feed(struct grpc_reader *reader, const uint8_t *bytes, size_t size);
/* Whether a whole message is there. */
bool grpc_reader_complete(const struct grpc_reader *reader);
/* Whether no byte of a message was seen since the last one was taken. */
bool grpc_reader_empty(const struct grpc_reader *reader);
/* Hands over the complete message, malloc'ed (also when its size is 0), and starts anew. -ENOMEM.
 */
int grpc_reader_take(struct grpc_reader *reader, uint8_t **ret, size_t *ret_size);
/* Drops what was collected. */
void grpc_reader_clear(struct grpc_reader *reader);

/*
 * The value of grpc-timeout: 1 to 8 digits and one of HMSmun. What does not fit becomes UINT64_MAX.
 * -EINVAL.
 */
int grpc_timeout_parse(const char *text, size_t size, uint64_t *ret_ns);
#define GRPC_TIMEOUT_SIZE 10
/* Writes the shortest unit that can hold ns, rounded up. */
void grpc_timeout_format(uint64_t ns, char text[static GRPC_TIMEOUT_SIZE]);

/* The value of grpc-message for a text: all but 0x20 to 0x7E, and '%', as %XX. malloc'ed, NULL
 * without memory. */
char *grpc_percent_encode(const char *text);
/* The reverse; what is no %XX is kept as it is, and NUL becomes '?'. malloc'ed, NULL without
 * memory. */
char *grpc_percent_decode(const char *text, size_t size);

/* Whether a content-type is gRPC's: application/grpc, alone or followed by + or ;. */
bool grpc_content_type_valid(const char *text, size_t size);

/*
 * Unpacks a gzip file in memory into *ret, malloc'ed, never NULL. -EMSGSIZE as soon as the output
 * passes max, -EBADMSG when the input is damaged, cut or followed by something else, -ENOMEM.
 */
int grpc_gunzip(const uint8_t *bytes, size_t size, size_t max, uint8_t **ret, size_t *ret_size);
