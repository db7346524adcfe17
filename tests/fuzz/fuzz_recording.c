/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording that somebody else made: the input is a file whose check sums are made right, so that
 * what is behind them is reached.
 */
#include <zlib.h>

#include "daemon/capture/replay.h"
#include "daemon/record/journal.h"
#include "tests/fuzz/fuzz.h"

static void correct(uint8_t *bytes, size_t size)
{
	struct journal_section_head head;
	size_t at = sizeof(struct journal_file);

	while (at + sizeof(head) <= size) {
		memcpy(&head, bytes + at, sizeof(head));
		if (head.size > size - at - sizeof(head))
			return;
		head.checksum = (uint32_t)crc32(crc32(0, (const Bytef *)&head.kind, 8),
						bytes + at + sizeof(head), head.size);
		memcpy(bytes + at, &head, sizeof(head));
		at += sizeof(head) + (head.size + 7) / 8 * 8;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct request_list_options requests = { .all = true, .slowest = 3 };
	static const struct replay_extras extras;
	_cleanup_free_ uint8_t *bytes = malloc(size + 1);
	struct replay replay;
	char error[256];

	if (!bytes)
		return 0;
	memcpy(bytes, data, size);
	correct(bytes, size);
	if (replay_make(bytes, size, &requests, &extras, &replay, error, sizeof(error)) >= 0)
		replay_done(&replay);
	return 0;
}
