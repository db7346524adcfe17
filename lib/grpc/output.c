/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/grpc/output.h"

#include <errno.h>
#include <string.h>

#include "lib/base/macro.h"

/* Smaller parts of messages are copied, to be written together with adjacent ones. */
#define COPY_MAX 32768
#define FULL_SIZE 65536
/* Memory that is kept if nothing is left. */
#define KEEP_SIZE 4096

/* Room for size bytes behind the last ones. */
static int output_reserve(struct grpc_output *output, size_t size)
{
	size_t allocated;
	uint8_t *bytes;

	if (output->start && output->end + size > output->allocated) {
		memmove(output->bytes, output->bytes + output->start, output->end - output->start);
		output->end -= output->start;
		output->start = 0;
	}
	if (output->end + size <= output->allocated)
		return 0;
	allocated = MAX(output->end + size, output->allocated * 2);
	bytes = realloc(output->bytes, allocated);
	if (!bytes)
		return -ENOMEM;
	output->bytes = bytes;
	output->allocated = allocated;
	return 0;
}

int grpc_output_add(struct grpc_output *output, const void *bytes, size_t size)
{
	struct grpc_span *last = output->n_spans ? &output->spans[output->n_spans - 1] : NULL;

	if (!size)
		return 0;
	if (output_reserve(output, size) < 0)
		return -ENOMEM;
	memcpy(output->bytes + output->end, bytes, size);
	output->end += size;
	if (!last || last->range.body) {
		last = &output->spans[output->n_spans++];
		*last = (struct grpc_span){ 0 };
	}
	last->size += size;
	output->size += size;
	return 0;
}

static int output_copy(struct grpc_output *output, struct grpc_queue *queue, size_t size)
{
	while (size) {
		struct iovec iov[GRPC_OUTPUT_PIECES];
		size_t n = GRPC_OUTPUT_PIECES, copied = grpc_queue_peek(queue, size, iov, &n);

		for (size_t i = 0; i < n; i++)
			if (grpc_output_add(output, iov[i].iov_base, iov[i].iov_len) < 0)
				return -ENOMEM;
		grpc_queue_advance(queue, copied);
		size -= copied;
	}
	return 0;
}

int grpc_output_take(struct grpc_output *output, struct grpc_queue *queue, size_t size)
{
	/* After a range there is always room for a span of copied bytes. */
	while (size >= COPY_MAX && output->n_spans < GRPC_OUTPUT_SPANS - 1) {
		struct grpc_span *span = &output->spans[output->n_spans++];

		span->size = 0;
		size -= grpc_queue_take(queue, size, &span->range);
		output->size += span->range.size;
	}
	return output_copy(output, queue, size);
}

bool grpc_output_full(const struct grpc_output *output)
{
	return output->size >= FULL_SIZE || output->n_spans >= GRPC_OUTPUT_SPANS - 2;
}

size_t grpc_output_peek(const struct grpc_output *output,
			struct iovec iov[static GRPC_OUTPUT_PIECES], size_t *ret_n)
{
	size_t at = output->start, n = 0, total = 0;

	for (size_t i = 0; i < output->n_spans && n < GRPC_OUTPUT_PIECES; i++) {
		const struct grpc_span *span = &output->spans[i];
		size_t left = GRPC_OUTPUT_PIECES - n;

		if (span->range.body) {
			size_t size = grpc_range_peek(&span->range, iov + n, &left);

			n += left;
			total += size;
			if (size < span->range.size)
				break;
		} else {
			iov[n++] = (struct iovec){ output->bytes + at, span->size };
			at += span->size;
			total += span->size;
		}
	}
	*ret_n = n;
	return total;
}

/* Takes up to size bytes out of the first span, and returns their number. */
static size_t advance_first(struct grpc_output *output, size_t size)
{
	struct grpc_span *first = &output->spans[0];
	size_t n;
	bool over;

	if (first->range.body) {
		n = MIN(size, first->range.size);
		over = n == first->range.size;
		grpc_range_advance(&first->range, n);
	} else {
		n = MIN(size, first->size);
		first->size -= n;
		output->start += n;
		over = !first->size;
	}
	if (over)
		memmove(first, first + 1, --output->n_spans * sizeof(*first));
	return n;
}

void grpc_output_advance(struct grpc_output *output, size_t size)
{
	output->size -= size;
	while (size)
		size -= advance_first(output, size);
	if (output->start < output->end)
		return;
	output->start = output->end = 0;
	if (output->allocated > KEEP_SIZE) {
		free(output->bytes);
		output->bytes = NULL;
		output->allocated = 0;
	}
}

void grpc_output_clear(struct grpc_output *output)
{
	for (size_t i = 0; i < output->n_spans; i++)
		if (output->spans[i].range.body)
			grpc_range_drop(&output->spans[i].range);
	free(output->bytes);
	*output = (struct grpc_output){ 0 };
}
