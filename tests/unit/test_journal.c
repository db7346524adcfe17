/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a recording: what was added can be read again, and damaged files are refused. */
#include "tests/unit/check.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#include "daemon/record/journal.h"
#include "lib/base/macro.h"

struct file {
	uint8_t *bytes;
	size_t size;
};

static struct journal_budget budget = { .max_bytes = 64u << 20 };

/* The whole file, as a client puts it together; frees the journal. */
static struct file collect(struct journal *j)
{
	struct file f = {};
	const void *bytes;
	size_t size;
	void *owner;

	while (journal_take(j, &bytes, &size, &owner)) {
		CHECK(size <= JOURNAL_BLOCK_BYTES);
		f.bytes = realloc(f.bytes, f.size + size);
		memcpy(f.bytes + f.size, bytes, size);
		f.size += size;
		journal_release(owner);
	}
	CHECK_EQ(f.size, journal_bytes(j));
	journal_free(j);
	return f;
}

static void add_wake(struct journal *j, uint64_t time)
{
	struct record_wake wake = {
		.head = { .time = time, .tid = 7, .kind = RECORD_WAKE, .size8 = sizeof(wake) / 8 },
		.waker_tid = 8
	};

	CHECK_EQ(journal_add_record(j, &wake.head), 0);
}

/* A section, two runs of records, one of the records long. */
static struct file small(void)
{
	struct record_object object = { .head = { .time = 3, .kind = RECORD_OBJECT }, .object = 5 };
	struct journal *j = NULL;

	CHECK_EQ(journal_new(&budget, &j), 0);
	CHECK_EQ(journal_add(j, JOURNAL_HEAD, "head!", 5), 0);
	add_wake(j, 1);
	add_wake(j, 2);
	CHECK_EQ(journal_add(j, JOURNAL_TARGET, "", 0), 0);
	CHECK_EQ(journal_add_record(j, &object.head), 0);
	CHECK_EQ(journal_finish(j), 0);
	return collect(j);
}

/* Reads to the end; the last answer, and how many records there were. */
static int read_to_end(struct file f, unsigned *ret_records, char *ret_error)
{
	struct journal_reader reader = { .bytes = f.bytes, .size = f.size };
	struct journal_section section;
	const struct record *record;
	size_t size;
	int r = journal_open(&reader);

	*ret_records = 0;
	while (r >= 0 && (r = journal_next(&reader, &section)) > 0)
		for (size_t at = 0;
		     section.kind == JOURNAL_RECORDS &&
		     (r = journal_next_record(&reader, &section, &at, &record, &size)) > 0;)
			++*ret_records;
	snprintf(ret_error, sizeof(reader.error), "%s", reader.error);
	return r;
}

/* The file as if its damage had been made on purpose. */
static void mend(struct file f)
{
	size_t at = sizeof(struct journal_file);

	while (f.size - at >= sizeof(struct journal_section_head)) {
		struct journal_section_head *head = (void *)(f.bytes + at);
		size_t left = f.size - at - sizeof(*head),
		       padded = ((size_t)head->size + 7) & ~(size_t)7;

		if (padded > left)
			break;
		head->checksum = (uint32_t)crc32(crc32(0, (const Bytef *)head, 8),
						 (const Bytef *)(head + 1), head->size);
		at += sizeof(*head) + padded;
	}
}

TEST(sections_are_read_in_the_order_in_which_they_were_added)
{
	struct file f = small();
	struct journal_reader reader = { .bytes = f.bytes, .size = f.size };
	struct journal_section s;
	const struct record *record;
	size_t at = 0, size;

	CHECK_EQ(journal_open(&reader), 0);
	CHECK_EQ(journal_next(&reader, &s), 1);
	CHECK_EQ(s.kind, JOURNAL_HEAD);
	CHECK_EQ(s.size, 5);
	CHECK(!memcmp(s.bytes, "head!", 5));
	CHECK_EQ(journal_next(&reader, &s), 1);
	CHECK_EQ(s.kind, JOURNAL_RECORDS);
	for (uint64_t time = 1; time <= 2; time++) {
		CHECK_EQ(journal_next_record(&reader, &s, &at, &record, &size), 1);
		CHECK_EQ(record->time, time);
		CHECK_EQ(size, sizeof(struct record_wake));
	}
	CHECK_EQ(journal_next_record(&reader, &s, &at, &record, &size), 0);
	CHECK_EQ(journal_next(&reader, &s), 1);
	CHECK_EQ(s.kind, JOURNAL_TARGET);
	CHECK_EQ(s.size, 0);
	CHECK_EQ(journal_next(&reader, &s), 1);
	at = 0;
	CHECK_EQ(journal_next_record(&reader, &s, &at, &record, &size), 1);
	CHECK_EQ(record->kind, RECORD_OBJECT);
	CHECK_EQ(size, sizeof(struct record_object));
	CHECK_EQ(journal_next_record(&reader, &s, &at, &record, &size), 0);
	CHECK_EQ(journal_next(&reader, &s), 0);
	free(f.bytes);
}

TEST(records_and_sections_of_many_blocks_come_out_whole)
{
	enum { N = 100000, LARGE = 3u << 20 };
	uint8_t *large = malloc(LARGE);
	struct journal *j = NULL;
	char error[160];
	struct file f;
	unsigned n;

	for (size_t i = 0; i < LARGE; i++)
		large[i] = (uint8_t)(i * 7 >> 3);
	CHECK_EQ(journal_new(&budget, &j), 0);
	for (unsigned i = 0; i < N; i++) {
		add_wake(j, i);
		if (i == N / 2)
			CHECK_EQ(journal_add(j, JOURNAL_HEAD, large, LARGE - 3), 0);
	}
	CHECK_EQ(journal_finish(j), 0);
	f = collect(j);
	CHECK_EQ(read_to_end(f, &n, error), 0);
	CHECK_EQ(n, N);
	CHECK_STR(error, "");
	CHECK_EQ(budget.used_bytes, 0);
	free(large);
	free(f.bytes);
}

TEST(all_journals_share_the_budget_and_one_that_is_too_large_frees_its_memory)
{
	struct journal_budget tight = { .max_bytes = 3u << 20 };
	struct journal *a = NULL, *b = NULL, *c = NULL;
	uint8_t *large = calloc(1, 2u << 20);

	CHECK_EQ(journal_new(&tight, &a), 0);
	CHECK_EQ(journal_new(&tight, &b), 0);
	CHECK_EQ(journal_add(a, JOURNAL_HEAD, large, 2u << 20), -ENOBUFS);
	CHECK_EQ(journal_add(a, JOURNAL_HEAD, "", 0), -ENOBUFS);
	CHECK_EQ(journal_finish(a), -ENOBUFS);
	/* The memory that the first one freed is available to others. */
	CHECK_EQ(journal_new(&tight, &c), 0);
	journal_free(a);
	journal_free(b);
	journal_free(c);
	CHECK_EQ(tight.used_bytes, 0);
	free(large);
}

TEST(a_record_of_an_unknown_kind_is_rejected)
{
	struct record record = { .kind = 250, .size8 = 2 };
	struct journal *j = NULL;

	CHECK_EQ(journal_new(&budget, &j), 0);
	CHECK_EQ(journal_add_record(j, &record), -EINVAL);
	CHECK_EQ(journal_finish(j), 0);
	journal_free(j);
}

TEST(a_file_truncated_anywhere_is_refused)
{
	struct file f = small();
	char error[160];
	unsigned n;

	CHECK_EQ(read_to_end(f, &n, error), 0);
	for (size_t size = 0; size < f.size; size++) {
		struct file cut = { .bytes = malloc(size + 1), .size = size };

		memcpy(cut.bytes, f.bytes, size);
		CHECK_EQ(read_to_end(cut, &n, error), -EBADMSG);
		CHECK(strstr(error, "(at byte "));
		free(cut.bytes);
	}
	free(f.bytes);
}

TEST(a_file_that_lacks_a_section_or_has_trailing_bytes_is_refused)
{
	size_t gone = sizeof(struct journal_section_head),
	       at = sizeof(struct journal_file) + gone + 8;
	struct file f = small();
	char error[160];
	unsigned n;

	f.bytes = realloc(f.bytes, f.size + 8);
	memset(f.bytes + f.size, 0, 8);
	f.size += 8;
	CHECK_EQ(read_to_end(f, &n, error), -EBADMSG);
	CHECK(strstr(error, "something follows"));
	f.size -= 8;
	CHECK_EQ(read_to_end(f, &n, error), 0);
	/* The section without content lies behind the first records. */
	at += gone + 2 * sizeof(struct record_wake);
	memmove(f.bytes + at, f.bytes + at + gone, f.size - at - gone);
	f.size -= gone;
	CHECK_EQ(read_to_end(f, &n, error), -EBADMSG);
	CHECK(strstr(error, "numbers of sections"));
	free(f.bytes);
}

TEST(every_flipped_bit_is_noticed)
{
	struct file f = small();
	char error[160];
	unsigned n;

	for (size_t bit = 0; bit < f.size * 8; bit++) {
		size_t byte = bit / 8;
		int r;

		f.bytes[byte] ^= (uint8_t)(1u << bit % 8);
		r = read_to_end(f, &n, error);
		/* The reserved words, and padding, have no meaning. */
		CHECK(r == -EBADMSG || r == -EPROTONOSUPPORT || (r == 0 && n == 3));
		f.bytes[byte] ^= (uint8_t)(1u << bit % 8);
	}
	f.bytes[f.size / 2] ^= 1;
	CHECK_EQ(read_to_end(f, &n, error), -EBADMSG);
	CHECK(strstr(error, "damaged"));
	free(f.bytes);
}

TEST(bits_that_were_flipped_on_purpose_do_no_harm)
{
	struct file f = small();
	uint8_t *copy = malloc(f.size);
	char error[160];
	unsigned n;

	memcpy(copy, f.bytes, f.size);
	for (size_t bit = 0; bit < f.size * 8; bit++) {
		memcpy(f.bytes, copy, f.size);
		f.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		mend(f);
		CHECK(read_to_end(f, &n, error) <= 0);
	}
	free(copy);
	free(f.bytes);
}

/* A file of one section of this kind. */
static struct file of_kind(uint32_t kind, const void *bytes, size_t size)
{
	struct journal *j = NULL;

	CHECK_EQ(journal_new(&budget, &j), 0);
	CHECK_EQ(journal_add(j, kind, bytes, size), 0);
	CHECK_EQ(journal_finish(j), 0);
	return collect(j);
}

TEST(optional_sections_of_a_later_version_are_skipped)
{
	struct file f = of_kind(JOURNAL_OPTIONAL | 4711, "later", 5);
	char error[160];
	unsigned n;

	CHECK_EQ(read_to_end(f, &n, error), 0);
	free(f.bytes);
	f = of_kind(4711, "later", 5);
	CHECK_EQ(read_to_end(f, &n, error), -EPROTONOSUPPORT);
	CHECK(strstr(error, "does not know (4711)"));
	free(f.bytes);
}

TEST(a_record_of_a_later_kind_is_skipped_by_its_size)
{
	struct record records[4] = { { .kind = 250, .size8 = 4 },
				     {},
				     { .kind = RECORD_NONE, .size8 = 2 },
				     { .kind = 251, .size8 = 2 } };
	struct journal_reader reader;
	struct journal_section s;
	const struct record *record;
	struct file f = of_kind(JOURNAL_RECORDS, records, sizeof(records));
	size_t at = 0, size;

	reader = (struct journal_reader){ .bytes = f.bytes, .size = f.size };
	CHECK_EQ(journal_open(&reader), 0);
	CHECK_EQ(journal_next(&reader, &s), 1);
	CHECK_EQ(journal_next_record(&reader, &s, &at, &record, &size), 0);
	CHECK_EQ(reader.n_records, 3);
	free(f.bytes);
}

TEST(a_record_that_claims_another_size_than_its_kind_is_refused)
{
	struct record_wake short_one[2] = { { .head = { .kind = RECORD_SWITCH, .size8 = 3 } } };
	struct record unknown = { .kind = 250, .size8 = 0 };
	struct file files[] = { of_kind(JOURNAL_RECORDS, &short_one, sizeof(short_one[0])),
				of_kind(JOURNAL_RECORDS, &unknown, sizeof(unknown)) };
	char error[160];
	unsigned n;

	for (unsigned i = 0; i < ARRAY_SIZE(files); i++) {
		CHECK_EQ(read_to_end(files[i], &n, error), -EBADMSG);
		free(files[i].bytes);
	}
}

TEST(other_files_and_other_versions_are_distinguished)
{
	struct file f = small();
	struct journal_file *head = (void *)f.bytes;
	char error[160];
	unsigned n;

	head->version = 2;
	CHECK_EQ(read_to_end(f, &n, error), -EPROTONOSUPPORT);
	CHECK(strstr(error, "version 2"));
	head->version = JOURNAL_VERSION;
	head->byte_order = 0x04030201;
	CHECK_EQ(read_to_end(f, &n, error), -EPROTONOSUPPORT);
	CHECK(strstr(error, "byte order"));
	memcpy(f.bytes, "{\"runs\":", 8);
	CHECK_EQ(read_to_end(f, &n, error), -EBADMSG);
	CHECK(strstr(error, "not a recording"));
	free(f.bytes);
}

CHECK_MAIN()
