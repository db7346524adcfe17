/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/servers/truth.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define RECORDS_MAX (1 << 21)

struct truth {
	FILE *out;
	struct truth_record *records; /* zero pages until they are used */
	atomic_size_t records_n;
};

int truth_new(const char *path, struct truth **ret)
{
	struct truth *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->records = calloc(RECORDS_MAX, sizeof(*t->records));
	t->out = t->records ? fopen(path, "we") : NULL;
	if (!t->out) {
		int r = t->records ? -errno : -ENOMEM;

		free(t->records);
		free(t);
		return r;
	}
	*ret = t;
	return 0;
}

void truth_add(struct truth *t, const struct truth_record *record)
{
	size_t i = atomic_fetch_add_explicit(&t->records_n, 1, memory_order_relaxed);

	if (i < RECORDS_MAX)
		t->records[i] = *record;
}

static void record_write(FILE *out, const struct truth_record *r)
{
	fprintf(out,
		"{\"id\": %" PRIu64
		", \"protocol\": \"%s\", \"peer_port\": %u, \"stream\": %u, \"thread\": %u, "
		"\"read_ns\": %" PRIu64 ", \"run_start_ns\": %" PRIu64 ", \"run_end_ns\": %" PRIu64
		", \"done_ns\": %" PRIu64,
		r->id, r->http2 ? "http2" : "http1", r->peer_port, r->stream, r->thread, r->read_ns,
		r->run_start_ns, r->run_end_ns, r->done_ns);
	if (r->model)
		fprintf(out, ", \"model\": \"%s\"", r->model);
	if (r->batched)
		fprintf(out, ", \"batch\": [%.9g, %.9g]", (double)r->batch[0], (double)r->batch[1]);
	fputs("}\n", out);
}

struct truth *truth_free(struct truth *t)
{
	if (!t)
		return NULL;
	size_t n = atomic_load(&t->records_n);

	if (n > RECORDS_MAX) {
		fprintf(stderr, "truth: %zu requests were not recorded\n", n - RECORDS_MAX);
		n = RECORDS_MAX;
	}
	for (size_t i = 0; i < n; i++)
		record_write(t->out, &t->records[i]);
	bool failed = ferror(t->out);

	if (fclose(t->out) || failed)
		fprintf(stderr, "truth: could not be written\n");
	free(t->records);
	free(t);
	return NULL;
}

uint64_t truth_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
