/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How gRPC maps to HTTP/2: the messages of a stream with their length prefix, and the values of its
 * headers. Bytes in, bytes out; no descriptor, no clock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A byte that states whether the message is compressed, then its size, big endian. */
#define GRPC_PREFIX_SIZE 5

/* Gets one message of a stream and owns its malloc'ed bytes; a negative value ends the call. */
typedef int (*grpc_message_fn)(uint8_t *bytes, size_t size, void *data);

void grpc_prefix_write(uint8_t prefix[static GRPC_PREFIX_SIZE], uint32_t size);

/*
 * Collects messages one after the other from pieces of any size. Ready when zeroed and with
 * max_size set. Memory grows with the bytes that arrived, not with the size in the prefix.
 */
struct grpc_reader {
	/* Of a message; a larger one is refused as soon as its prefix is complete. */
	size_t max_size;
	uint8_t prefix[GRPC_PREFIX_SIZE];
	size_t n_prefix;
	bool compressed;
	uint8_t *bytes;
	size_t size, filled, allocated;
};

/*
 * Consumes bytes up to the end of the current message, and returns how many (0 only if the message
 * is complete, or size is 0). -EBADMSG for an invalid prefix, -EMSGSIZE for a message above
 * max_size, -ENOMEM.
 */
ssize_t grpc_reader_feed(struct grpc_reader *reader, const uint8_t *bytes, size_t size);
/* Whether a whole message is available. */
bool grpc_reader_complete(const struct grpc_reader *reader);
/* Whether no byte of a message arrived since the last one was taken. */
bool grpc_reader_empty(const struct grpc_reader *reader);
/* Hands over the complete message, malloc'ed (also if its size is 0), and starts again. -ENOMEM. */
int grpc_reader_take(struct grpc_reader *reader, uint8_t **ret, size_t *ret_size);
/* Drops what was collected. */
void grpc_reader_clear(struct grpc_reader *reader);

/*
 * The value of grpc-timeout: 1 to 8 digits and one of HMSmun. A value that does not fit becomes
 * UINT64_MAX. -EINVAL.
 */
int grpc_timeout_parse(const char *text, size_t size, uint64_t *ret_ns);
#define GRPC_TIMEOUT_SIZE 10
/* Writes the shortest unit that can hold ns, rounded up. */
void grpc_timeout_format(uint64_t ns, char text[static GRPC_TIMEOUT_SIZE]);

/* The value of grpc-message for a text: all but 0x20 to 0x7E, and '%', as %XX. malloc'ed, NULL
 * without memory. */
char *grpc_percent_encode(const char *text);
/* The reverse; anything that is not %XX is kept as it is, and NUL becomes '?'. malloc'ed, NULL
 * without memory. */
char *grpc_percent_decode(const char *text, size_t size);

/* Whether a content-type is gRPC's: application/grpc, alone or followed by + or ;. */
bool grpc_content_type_valid(const char *text, size_t size);

/*
 * Unpacks a gzip file in memory into *ret, malloc'ed, never NULL. -EMSGSIZE as soon as the output
 * exceeds max, -EBADMSG if the input is damaged, truncated or followed by something else, -ENOMEM.
 */
int grpc_gunzip(const uint8_t *bytes, size_t size, size_t max, uint8_t **ret, size_t *ret_size);
