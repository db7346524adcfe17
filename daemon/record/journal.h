/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing and reading of recordings: sections in the order of time, as docs/recording.md describes.
 * This layer handles the file: its head, the sections' sizes and checksums, and its end. The
 * content of sections other than records is left to others.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/record_types.h"

#define JOURNAL_VERSION 1
/* Maximal size of a block. */
#define JOURNAL_BLOCK_BYTES ((1u << 20) - 64)

/* Kinds are append-only. A reader skips an unknown optional kind, and refuses a file with any other
 * unknown kind. */
enum journal_kind {
	JOURNAL_HEAD = 1,     /* RecordingHead of lib/proto/recording.proto; the first one */
	JOURNAL_TARGET = 2,   /* RecordingTarget: gets the next number from 0 */
	JOURNAL_LAYOUT = 3,   /* RecordingLayout */
	JOURNAL_SHED = 4,     /* RecordingShed */
	JOURNAL_RECORDS = 5,  /* records of include/record.h, one after the other */
	JOURNAL_RESULT = 6,   /* RecordingResult */
	JOURNAL_END = 7,      /* struct journal_end; the last one */
	JOURNAL_LOSS = 8,     /* RecordingLoss */
	JOURNAL_RECALLED = 9, /* as JOURNAL_RECORDS: from before the window, referred to in it */
	JOURNAL_RESUMED = 10, /* RecordingResumed */
	JOURNAL_OPTIONAL = 1 << 16,
	JOURNAL_PLAN,     /* PlanReply of lib/proto/control.proto */
	JOURNAL_MODULE,   /* xla.HloProto, as XLA wrote it */
	JOURNAL_STARTUP,  /* RecordingStartup */
	JOURNAL_SNAPSHOT, /* RecordingSnapshot */
	JOURNAL_SYMBOLS,  /* RecordingSymbols */
};

/* The start of the file; all numbers in it are in the machine's byte order, which is little-endian
 * on all supported ones. */
struct journal_file {
	char magic[8];
	uint32_t byte_order; /* JOURNAL_BYTE_ORDER */
	uint32_t version;    /* JOURNAL_VERSION */
	uint32_t head_size;  /* of struct record */
	uint32_t reserved;   /* 0 */
};

#define JOURNAL_MAGIC "\x89TFP\r\n\x1a\n"
#define JOURNAL_BYTE_ORDER 0x01020304u

/* Before a section, whose bytes are padded with zeros to a multiple of 8. */
struct journal_section_head {
	uint32_t kind;
	uint32_t size;     /* in bytes, without this head and the padding */
	uint32_t checksum; /* CRC-32 (zlib's) of kind, size and the bytes */
	uint32_t reserved; /* 0 */
};

struct journal_end {
	uint64_t sections; /* before this one */
	uint64_t records;
};

_Static_assert(sizeof(struct journal_file) == 24, "file head");
_Static_assert(sizeof(struct journal_section_head) == 16, "section head");
_Static_assert(sizeof(struct journal_end) == 16, "end section");

/* Memory that several journals share; they may take and return it in several threads. Initially
 * zero except for max_bytes. */
struct journal_budget {
	uint64_t max_bytes, used_bytes;
};

struct journal;

/* The budget must live as long as the journal and what was taken out of it. -ENOMEM, -ENOBUFS (the
 * budget is used up). */
int journal_new(struct journal_budget *budget, struct journal **ret);
struct journal *journal_free(struct journal *j);

/* Each returns the first error, even that of an earlier call: the journal is then useless. -ENOMEM,
 * -ENOBUFS (the budget is used up). */
int journal_add(struct journal *j, uint32_t kind, const void *bytes, size_t size);
/* Adds a record of a known kind and of that kind's size. Otherwise -EINVAL, and the record is not
 * kept. */
int journal_add_record(struct journal *j, const struct record *record);
/* The same for a record from before the window. */
int journal_add_recalled(struct journal *j, const struct record *record);
/* Sets this as the first error: what was written so far is then useless, and its memory is freed.
 * Returns it. */
int journal_abandon(struct journal *j, int error);
/* Nothing can be added afterwards. */
int journal_finish(struct journal *j);

/* The size of the whole file so far, in bytes. */
uint64_t journal_bytes(const struct journal *j);

/*
 * Takes the next piece out of the file, at most JOURNAL_BLOCK_BYTES; false: there are no more.
 * After journal_finish() only. *ret_owner is to be passed to journal_release() once the bytes are
 * no longer needed, even after the journal was freed.
 */
bool journal_take(struct journal *j, const void **ret_bytes, size_t *ret_size, void **ret_owner);
void journal_release(void *owner);

struct journal_section {
	uint32_t kind;
	const uint8_t *bytes; /* aligned to 8 */
	size_t size;
	uint64_t offset; /* of the bytes in the file */
};

/* Initially zero except for bytes and size: the file in memory, aligned to 8. */
struct journal_reader {
	const uint8_t *bytes;
	size_t size;
	size_t at;
	uint64_t n_sections, n_records;
	/* One sentence without its period: what is wrong, and where. */
	char error[160];
};

/* Checks the start of the file. -EBADMSG: not a complete recording; -EPROTONOSUPPORT: of another
 * version or machine. */
int journal_open(struct journal_reader *reader);
/*
 * The next section; unknown sections of optional kinds are skipped. Returns 1; 0 after the last
 * one; -EBADMSG, -EPROTONOSUPPORT (of a kind that this version must know).
 */
int journal_next(struct journal_reader *reader, struct journal_section *ret);
/*
 * The next record in a section of them; *at, 0 at first, is advanced. Records of unknown kinds are
 * skipped if they contain their size. Returns 1; 0 after the last one; -EBADMSG. The record's size
 * is that of its kind, at most 256 KiB.
 */
int journal_next_record(struct journal_reader *reader, const struct journal_section *section,
			size_t *at, const struct record **ret, size_t *ret_size);
/* Sets the error to this text with the offset in the file. Returns -EBADMSG. */
__attribute__((format(printf, 3, 4))) int journal_bad(struct journal_reader *reader,
						      uint64_t offset, const char *format, ...);
