/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/grpc/framing.h"

#include <errno.h>
#include <sys/uio.h>
#include <zlib.h>

#include "lib/base/macro.h"
#include "lib/grpc/body.h"
#include "lib/grpc/status.h"
#include "tests/unit/check.h"

static const uint8_t two_messages[] = { 0, 0, 0, 0, 3, 'a', 'b', 'c', 1, 0, 0, 0, 2, 'x', 'y' };

static void check_two_messages(size_t step)
{
	struct grpc_reader reader = { .max_size = 3 };
	const char *const wanted[] = { "abc", "xy" };
	size_t messages = 0;

	for (size_t i = 0; i < sizeof(two_messages);) {
		ssize_t n = grpc_reader_feed(&reader, two_messages + i,
					     MIN(step, sizeof(two_messages) - i));
		uint8_t *message;
		size_t size;

		CHECK(n > 0);
		if (n <= 0)
			break;
		i += (size_t)n;
		if (!grpc_reader_complete(&reader))
			continue;
		CHECK_EQ(reader.compressed, messages == 1);
		CHECK_EQ(grpc_reader_take(&reader, &message, &size), 0);
		CHECK(grpc_reader_empty(&reader));
		CHECK(messages < 2 && size == strlen(wanted[messages]) &&
		      !memcmp(message, wanted[messages], size));
		messages++;
		free(message);
	}
	CHECK_EQ(messages, 2);
	grpc_reader_clear(&reader);
}

TEST(messages_are_found_however_the_bytes_are_divided)
{
	for (size_t step = 1; step <= sizeof(two_messages); step++)
		check_two_messages(step);
}

TEST(an_empty_message_is_a_message)
{
	const uint8_t bytes[] = { 0, 0, 0, 0, 0 };
	struct grpc_reader reader = { .max_size = 1 };
	uint8_t *message;
	size_t size;

	CHECK(grpc_reader_empty(&reader));
	CHECK_EQ(grpc_reader_feed(&reader, bytes, 4), 4);
	CHECK(!grpc_reader_complete(&reader) && !grpc_reader_empty(&reader));
	CHECK_EQ(grpc_reader_feed(&reader, bytes + 4, 1), 1);
	CHECK(grpc_reader_complete(&reader));
	CHECK_EQ(grpc_reader_feed(&reader, bytes, 1), 0);
	CHECK_EQ(grpc_reader_take(&reader, &message, &size), 0);
	CHECK(message != NULL);
	CHECK_EQ(size, 0);
	free(message);
}

TEST(a_message_above_the_limit_is_refused_from_its_prefix_alone)
{
	const uint8_t four_gigabytes[] = { 0, 0xff, 0xff, 0xff, 0xff },
		      unknown_flag[] = { 2, 0, 0, 0, 1 };
	struct grpc_reader reader = { .max_size = 1000 };

	CHECK_EQ(grpc_reader_feed(&reader, four_gigabytes, 5), -EMSGSIZE);
	CHECK_EQ(reader.allocated, 0);
	grpc_reader_clear(&reader);
	CHECK_EQ(grpc_reader_feed(&reader, unknown_flag, 5), -EBADMSG);
}

TEST(memory_grows_with_the_received_bytes_not_with_the_claimed_size)
{
	const uint8_t claim[] = { 0, 0x40, 0, 0, 0, 'a' };
	struct grpc_reader reader = { .max_size = UINT32_MAX };

	CHECK_EQ(grpc_reader_feed(&reader, claim, sizeof(claim)), sizeof(claim));
	CHECK(reader.allocated <= 4096);
	grpc_reader_clear(&reader);
}

static uint64_t timeout_of(const char *text)
{
	uint64_t ns = 1;

	return grpc_timeout_parse(text, strlen(text), &ns) == 0 ? ns : 0;
}

TEST(timeouts_are_read_in_every_unit_and_nothing_else_is)
{
	uint64_t ns;

	CHECK_EQ(timeout_of("1H"), 3600000000000);
	CHECK_EQ(timeout_of("2M"), 120000000000);
	CHECK_EQ(timeout_of("3S"), 3000000000);
	CHECK_EQ(timeout_of("4m"), 4000000);
	CHECK_EQ(timeout_of("5u"), 5000);
	CHECK_EQ(timeout_of("00000007n"), 7);
	CHECK(timeout_of("99999999H") == UINT64_MAX);
	CHECK_EQ(grpc_timeout_parse("0S", 2, &ns), 0);
	CHECK_EQ(ns, 0);
	CHECK_EQ(grpc_timeout_parse("", 0, &ns), -EINVAL);
	CHECK_EQ(grpc_timeout_parse("S", 1, &ns), -EINVAL);
	CHECK_EQ(grpc_timeout_parse("5", 1, &ns), -EINVAL);
	CHECK_EQ(grpc_timeout_parse("5s", 2, &ns), -EINVAL);
	CHECK_EQ(grpc_timeout_parse("-5S", 3, &ns), -EINVAL);
	CHECK_EQ(grpc_timeout_parse("1.5S", 4, &ns), -EINVAL);
	CHECK_EQ(grpc_timeout_parse("123456789S", 10, &ns), -EINVAL);
}

TEST(a_timeout_is_written_in_eight_digits_and_never_shorter_than_it_is)
{
	const uint64_t samples[] = { 1,           99999999,        100000000,
				     60000000000, 123456789012345, UINT64_MAX };
	char text[GRPC_TIMEOUT_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		grpc_timeout_format(samples[i], text);
		CHECK(timeout_of(text) >= samples[i]);
	}
	grpc_timeout_format(100000001, text);
	CHECK_STR(text, "100001u");
	grpc_timeout_format(1, text);
	CHECK_STR(text, "1n");
}

TEST(status_messages_survive_the_percent_encoding)
{
	char *encoded = grpc_percent_encode("50% größer\n"),
	     *decoded = encoded ? grpc_percent_decode(encoded, strlen(encoded)) : NULL;
	char *lenient = grpc_percent_decode("a%2", 3), *kept = grpc_percent_decode("%zz%00%41", 9);

	CHECK_STR(encoded, "50%25 gr%C3%B6%C3%9Fer%0A");
	CHECK_STR(decoded, "50% größer\n");
	CHECK_STR(lenient, "a%2");
	CHECK_STR(kept, "%zz?A");
	free(encoded);
	free(decoded);
	free(lenient);
	free(kept);
}

TEST(only_content_types_of_grpc_are_accepted)
{
	CHECK(grpc_content_type_valid("application/grpc", 16));
	CHECK(grpc_content_type_valid("application/grpc+proto", 22));
	CHECK(grpc_content_type_valid("application/grpc;a=b", 20));
	CHECK(!grpc_content_type_valid("application/grpc-web", 20));
	CHECK(!grpc_content_type_valid("application/grp", 15));
	CHECK(!grpc_content_type_valid("", 0));
	CHECK(!grpc_content_type_valid("text/plain", 10));
}

TEST(status_codes_have_names)
{
	CHECK_STR(grpc_status_name(GRPC_UNAUTHENTICATED), "UNAUTHENTICATED");
	CHECK_STR(grpc_status_name((enum grpc_status)17), "UNKNOWN");
}

static size_t gzip(const uint8_t *bytes, size_t size, uint8_t *out, size_t out_size)
{
	z_stream z = { .next_in = (Bytef *)bytes, .avail_in = (uInt)size, .next_out = out };

	z.avail_out = (uInt)out_size;
	CHECK_EQ(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	CHECK_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return out_size - z.avail_out;
}

TEST(gzip_is_unpacked_within_a_limit_and_damage_is_detected)
{
	static uint8_t bytes[100000], packed[2000];
	uint8_t *unpacked;
	size_t n = gzip(bytes, sizeof(bytes), packed, sizeof(packed) - 1), size;

	CHECK_EQ(grpc_gunzip(packed, n, sizeof(bytes), &unpacked, &size), 0);
	CHECK_EQ(size, sizeof(bytes));
	CHECK(!memcmp(unpacked, bytes, sizeof(bytes)));
	free(unpacked);
	CHECK_EQ(grpc_gunzip(packed, n, sizeof(bytes) - 1, &unpacked, &size), -EMSGSIZE);
	CHECK_EQ(grpc_gunzip(packed, n - 1, sizeof(bytes), &unpacked, &size), -EBADMSG);
	CHECK_EQ(grpc_gunzip(packed, n + 1, sizeof(bytes), &unpacked, &size), -EBADMSG);
	CHECK_EQ(grpc_gunzip(packed, 0, sizeof(bytes), &unpacked, &size), -EBADMSG);
	packed[n - 1] ^= 1;
	CHECK_EQ(grpc_gunzip(packed, n, sizeof(bytes), &unpacked, &size), -EBADMSG);
	n = gzip(bytes, 0, packed, sizeof(packed));
	CHECK_EQ(grpc_gunzip(packed, n, 0, &unpacked, &size), 0);
	CHECK_EQ(size, 0);
	free(unpacked);
}

static void count_release(void *data)
{
	++*(int *)data;
}

TEST(pieces_come_out_in_order_with_prefixes_and_are_released_with_their_last_byte)
{
	struct grpc_queue queue = { 0 };
	struct grpc_body *body;
	struct iovec iov[3];
	uint8_t wire[64];
	int released = 0;
	size_t n_wire = 0;

	CHECK_EQ(grpc_body_new(&body), 0);
	CHECK_EQ(grpc_body_add(body, "abc", 3, count_release, &released), 0);
	CHECK_EQ(grpc_body_add(body, "", 0, count_release, &released), 0);
	CHECK_EQ(grpc_body_add(body, "de", 2, count_release, &released), 0);
	CHECK_EQ(grpc_body_size(body), 5);
	CHECK_EQ(grpc_queue_add(&queue, body), 0);
	CHECK_EQ(grpc_body_new(&body), 0);
	CHECK_EQ(grpc_queue_add(&queue, body), 0);
	CHECK_EQ(grpc_body_new(&body), 0);
	CHECK_EQ(grpc_body_add_copy(body, "fg", 2), 0);
	CHECK_EQ(grpc_queue_add(&queue, body), 0);
	CHECK_EQ(queue.size, 22);
	while (queue.size) {
		size_t n = ARRAY_SIZE(iov), size = grpc_queue_peek(&queue, 4, iov, &n);

		CHECK(size > 0 && size <= 4);
		for (size_t i = 0; i < n; i++) {
			memcpy(wire + n_wire, iov[i].iov_base, iov[i].iov_len);
			n_wire += iov[i].iov_len;
		}
		grpc_queue_advance(&queue, size);
		CHECK_EQ(released, n_wire >= 10 ? 3 : n_wire >= 8 ? 2 : 0);
		CHECK_EQ(queue.in_middle, n_wire != 10 && n_wire != 15 && n_wire != 22);
	}
	CHECK_EQ(n_wire, 22);
	CHECK(!memcmp(wire, "\0\0\0\0\5abcde\0\0\0\0\0\0\0\0\0\2fg", 22));
	CHECK(!queue.first && !queue.last);
}

TEST(a_queue_that_is_cleared_releases_what_is_left)
{
	struct grpc_queue queue = { 0 };
	struct grpc_body *body;
	int released = 0;

	for (int i = 0; i < 3; i++) {
		CHECK_EQ(grpc_body_new(&body), 0);
		CHECK_EQ(grpc_body_add(body, "abc", 3, count_release, &released), 0);
		CHECK_EQ(grpc_queue_add(&queue, body), 0);
	}
	grpc_queue_advance(&queue, 9);
	CHECK_EQ(released, 1);
	grpc_queue_clear(&queue);
	CHECK_EQ(released, 3);
	CHECK_EQ(queue.size, 0);
}

TEST(a_message_too_large_for_any_client_is_refused_and_released)
{
	struct grpc_queue queue = { 0 };
	struct grpc_body *body;
	int released = 0;

	CHECK_EQ(grpc_body_new(&body), 0);
	CHECK_EQ(grpc_body_add(body, "", GRPC_MESSAGE_MAX, count_release, &released), 0);
	CHECK_EQ(grpc_body_add(body, "a", 1, count_release, &released), 0);
	CHECK_EQ(grpc_queue_add(&queue, body), -EMSGSIZE);
	CHECK_EQ(released, 2);
	CHECK_EQ(queue.size, 0);
}

CHECK_MAIN()
