/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the XSpace of a made-up timeline of requests and batches, and what is true of it as JSON
 * on standard output, for tests/e2e/test_request_pages.py: what the pages of TensorBoard's Profile
 * plugin say must be that.
 *
 * usage: requests_xspace FILE LEVEL [odd] [device]
 *
 * odd: with names that a hostile server, or client, can give; device: with a device plane
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/export/xspace/export.h"
#include "daemon/timeline/timeline.h"
#include "lib/base/macro.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define WINDOW_START (77 * MS)
#define WINDOW_MS 10000

enum {
	SINGLE = 300,
	BATCHES = 60,
	PER_BATCH = 4,
	CHECKS = 10,
	OTHER_RUNS = 20,
	ODD = 7,
	REQUESTS = SINGLE + BATCHES * PER_BATCH + CHECKS + ODD
};
enum {
	HANDLER_A,
	HANDLER_B,
	POOL_A,
	POOL_B,
	BATCH_THREAD,
	BATCH_POOL,
	LONELY,
	WAKER,
	OTHER,
	ODD_THREAD,
	THREADS
};
enum { NAME_RUN, NAME_PIECE, NAME_MATMUL, NAME_FUTEX, NAME_ODD, NAMES = NAME_ODD + 7 };
enum {
	TEXT_POST,
	TEXT_GET,
	TEXT_REST,
	TEXT_GRPC,
	TEXT_HEALTH,
	TEXT_ALPHA,
	TEXT_BETA,
	TEXT_ONE,
	TEXT_TWO,
	TEXTS
};
enum { ODD_INNER = 4 }; /* of the odd names: within the one before */
enum kind { KIND_SINGLE = 1, KIND_BATCHED, KIND_CHECK, KIND_ODD };

static const char *texts[TEXTS] = {
	[TEXT_POST] = "POST",
	[TEXT_GET] = "GET",
	[TEXT_REST] = "/v1/models/alpha:predict?x=ProcessBatch",
	[TEXT_GRPC] = "/example.Prediction/Predict",
	[TEXT_HEALTH] = "/healthz",
	[TEXT_ALPHA] = "alpha",
	[TEXT_BETA] = "beta",
	[TEXT_ONE] = "1",
	[TEXT_TWO] = "2",
};

static struct span_name names[NAMES] = {
	[NAME_RUN] = { .name = (char *)"SessionRun" },
	[NAME_PIECE] = { .name = (char *)"ExecutorState::Process" },
	[NAME_MATMUL] = { .name = (char *)"dense/MatMul:MatMul", .display = (char *)"MatMul" },
	[NAME_FUTEX] = { .name = (char *)"futex" },
	[NAME_ODD... NAMES - 1] = { .name = (char *)"unused" },
};

static struct thread threads[THREADS];
static struct process processes[] = { { .pid = 100, .name = "server" },
				      { .pid = 900, .name = "other" } };
static struct request requests[REQUESTS];
static struct segment segments[REQUESTS * 8];
static struct batch batches[BATCHES + 1];
static struct batch_task tasks[BATCHES * PER_BATCH];
static struct span spans[REQUESTS * 8];
static struct timeline timeline = {
	.start_ns = WINDOW_START,
	.end_ns = WINDOW_START + WINDOW_MS * MS,
	.start_unix_ns = UINT64_C(1700000000123456789),
	.spans = spans,
	.threads = threads,
	.n_threads = THREADS,
	.processes = processes,
	.n_processes = 2,
	.names = (struct span_name *)names,
	.n_names = NAMES,
	.requests = requests,
	.segments = segments,
	.batches = batches,
	.batch_tasks = tasks,
	.texts = (char **)texts,
	.n_texts = TEXTS,
};

/* With odd names, in a time without other events: what ops allocate and free, and which thread has
 * which CPU. */
enum { BLOCKS = 3 * (NAMES - NAME_ODD), CPUS = 2, SLICES_PER_CPU = 5 * THREADS };
#define ODD_START (WINDOW_START + 5000 * MS)
static struct memory_event memory[2 * BLOCKS];
static struct cpu_slice slices[CPUS * SLICES_PER_CPU];

static char long_text[(64 << 10) + 1];

static uint64_t random_below(uint64_t limit)
{
	static uint64_t state = 1;

	state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (state >> 33) % limit;
}

static void add_request(enum kind kind, uint32_t number, uint64_t start_ns, uint64_t duration_ns,
			uint8_t flags)
{
	requests[timeline.n_requests++] = (struct request){
		.start_ns = WINDOW_START + start_ns,
		.end_ns = WINDOW_START + start_ns + duration_ns,
		.id = (uint64_t)kind << 32 | number,
		.connection = number + 1,
		.bytes_in = 300,
		.bytes_out = 120,
		.method = kind == KIND_CHECK ? TEXT_GET : TEXT_POST,
		.stream = 1,
		.peer_port = 40000,
		.local_port = 8501,
		.path = kind == KIND_BATCHED ? TEXT_GRPC
			: kind == KIND_CHECK ? TEXT_HEALTH
					     : TEXT_REST,
		.model = kind == KIND_BATCHED ? TEXT_BETA
			 : kind == KIND_CHECK ? TEXT_NONE
					      : TEXT_ALPHA,
		.version = kind == KIND_BATCHED ? TEXT_TWO
			   : kind == KIND_CHECK ? TEXT_NONE
						: TEXT_ONE,
		.protocol = kind == KIND_BATCHED ? PROTOCOL_HTTP2 : PROTOCOL_HTTP1,
		.status = 200,
		.grpc_status = kind == KIND_BATCHED ? 0 : -1,
		.flags = flags,
		.attribution = kind == KIND_CHECK || kind == KIND_ODD ? ATTRIBUTION_NONE
								      : ATTRIBUTION_EXACT,
		.n_runs = kind == KIND_CHECK || kind == KIND_ODD ? 0 : 1,
	};
}

static void add_segment(struct request *q, enum phase phase, enum activity activity,
			uint64_t until_ns, uint32_t name)
{
	uint64_t start = q->n_segments ? segments[timeline.n_segments - 1].end_ns : q->start_ns;

	segments[timeline.n_segments++] = (struct segment){ .start_ns = start,
							    .end_ns = until_ns,
							    .phase = phase,
							    .activity = activity,
							    .thread = HANDLER_A,
							    .name = name,
							    .by = WAKER };
	q->n_segments++;
	q->phases[phase] += until_ns - start;
}

static void add_span(enum span_kind kind, uint32_t name, uint32_t thread, uint64_t start_ns,
		     uint64_t end_ns, uint64_t context, uint32_t request)
{
	struct span *s = &spans[timeline.n_spans++];

	*s = (struct span){ .start_ns = start_ns,
			    .end_ns = end_ns,
			    .context = context,
			    .kind = kind,
			    .name = name,
			    .thread = thread,
			    .request = request,
			    .step = 7 };
	if (kind == SPAN_BATCH)
		s->batch = (int64_t)context;
}

static void add_requests(void)
{
	for (uint32_t i = 0; i < SINGLE; i++)
		add_request(KIND_SINGLE, i, i * 30 * MS + (i & 1) * 5 * MS,
			    5 * MS + random_below(i % 50 ? 10 * MS : 40 * MS), 0);
	for (uint32_t i = 0; i < BATCHES * PER_BATCH; i++)
		add_request(KIND_BATCHED, i,
			    13 * MS + i / PER_BATCH * 150 * MS + i % PER_BATCH * MS,
			    20 * MS + i % PER_BATCH * MS / 2, 0);
	for (uint32_t i = 0; i < CHECKS; i++)
		add_request(KIND_CHECK, i, 9100 * MS + i * 10 * MS, MS, 0);
	add_request(KIND_ODD, 0, 0, 3000 * MS, REQUEST_TRUNCATED_START);
	add_request(KIND_ODD, 1, 6000 * MS, 4000 * MS, REQUEST_TRUNCATED_END);
	add_request(KIND_ODD, 2, 100 * MS, 2000 * MS, REQUEST_RESET);
	add_request(KIND_ODD, 3, 200 * MS, 2000 * MS, REQUEST_LOST);
	for (uint32_t i = 4; i < ODD; i++)
		add_request(KIND_ODD, i, i * 200 * MS, 4000 * MS, REQUEST_FILTERED);
}

static void run_single(struct request *q, uint32_t i)
{
	uint64_t latency = q->end_ns - q->start_ns, run = q->start_ns + latency / 10,
		 answer = q->end_ns - latency / 10;
	uint32_t number = (uint32_t)q->id, handler = number & 1 ? HANDLER_B : HANDLER_A,
		 pool = number & 1 ? POOL_B : POOL_A;
	uint64_t middle = (run + answer) / 2;

	add_segment(q, PHASE_READ, ACTIVITY_RUNNING, q->start_ns + latency / 50, TEXT_NONE);
	add_segment(q, PHASE_DECODE, ACTIVITY_RUNNING, run, TEXT_NONE);
	add_segment(q, PHASE_EXECUTE_RUNNING, ACTIVITY_RUNNING, middle, NAME_MATMUL);
	add_segment(q, PHASE_EXECUTE_RUNNABLE, ACTIVITY_RUNNABLE, middle + latency / 20, TEXT_NONE);
	add_segment(q, PHASE_EXECUTE_BLOCKED, ACTIVITY_BLOCKED, answer, NAME_FUTEX);
	add_segment(q, PHASE_ENCODE, ACTIVITY_RUNNING, q->end_ns - latency / 20, TEXT_NONE);
	add_segment(q, PHASE_WRITE, ACTIVITY_RUNNING, q->end_ns, TEXT_NONE);
	add_span(SPAN_RUN, NAME_RUN, handler, run, answer, 1000 + i, i + 1);
	/* Threads often end their pieces of a run after it, some after the answer: that is not part
	 * of the latency. */
	add_span(SPAN_EXECUTOR, NAME_PIECE, pool, run + 10 * US,
		 q->end_ns + (number % 3 ? 0 : 2 * MS), 1000 + i, 0);
	add_span(SPAN_OP, NAME_MATMUL, pool, run + 20 * US, middle, 0, 0);
}

static void run_batched(struct request *q, uint32_t i)
{
	uint32_t number = (uint32_t)q->id, b = number / PER_BATCH;
	uint64_t begin = q->start_ns - number % PER_BATCH * MS;

	add_segment(q, PHASE_DECODE, ACTIVITY_RUNNING, q->start_ns + MS / 2, TEXT_NONE);
	add_segment(q, PHASE_BATCH, ACTIVITY_WAITING, begin + 10 * MS, TEXT_NONE);
	add_segment(q, PHASE_EXECUTE_RUNNING, ACTIVITY_RUNNING, begin + 18 * MS, NAME_MATMUL);
	add_segment(q, PHASE_ENCODE, ACTIVITY_RUNNING, q->end_ns, TEXT_NONE);
	tasks[number] = (struct batch_task){ .queued_ns = q->start_ns + MS / 2,
					     .batch = b,
					     .request = i + 1 };
	if (number % PER_BATCH)
		return;
	/* It continues after the first of its requests, which take 20 ms and more, have their
	 * answers. */
	batches[b] = (struct batch){ .start_ns = begin + 10 * MS,
				     .end_ns = begin + 32 * MS,
				     .thread = BATCH_THREAD,
				     .first_task = number,
				     .n_tasks = PER_BATCH,
				     .size = b & 1 ? 8 : 4,
				     .padded = 8 };
	add_span(SPAN_BATCH, NAME_RUN, BATCH_THREAD, begin + 10 * MS, begin + 32 * MS, b, 0);
	add_span(SPAN_RUN, NAME_RUN, BATCH_THREAD, begin + 11 * MS, begin + 18 * MS, 5000 + b, 0);
	add_span(SPAN_EXECUTOR, NAME_PIECE, BATCH_POOL, begin + 12 * MS, begin + 17 * MS, 5000 + b,
		 0);
	add_span(SPAN_OP, NAME_MATMUL, BATCH_POOL, begin + 12 * MS, begin + 16 * MS, 0, 0);
}

/* Not UTF-8, empty, 64 KiB long, with what separates names or ends strings elsewhere; and
 * operations on a thread of their own, one within another. */
static void make_odd(void)
{
	static const char *const odd_names[NAMES - NAME_ODD] = {
		"\x01\"quoted\"\t'\\:Mul",
		"",
		long_text,
		"train:Mul",
		"test_step:Mul",
		"TraceContext:Mul",
		"a\xff\xfe/b:c:Mul",
	};

	memset(long_text, 'x', sizeof(long_text) - 1);
	texts[TEXT_ALPHA] = long_text;
	texts[TEXT_BETA] = "b\xff:\"/\\'<\x01\x7f\n&>\xf0\x9f";
	texts[TEXT_TWO] = "";
	texts[TEXT_REST] = long_text;
	texts[TEXT_GRPC] = "/a.b/\"\xc3\x28:\t{}";
	texts[TEXT_HEALTH] = "train:\x02\"\xed\xa0\x80";
	texts[TEXT_GET] = "\"\n";
	names[NAME_FUTEX].name = (char *)"fu\xff\"\n:tex";
	memcpy(processes[1].name, "o\"\xff\n/:'\x01\\<>&\x7f", 13);
	for (uint32_t i = 0; i < THREADS; i++)
		memcpy(threads[i].name, i % 2 ? "\"\xfe\x01:/\n\\'" : "\0", i % 2 ? 9 : 1);
	for (uint32_t i = 0; i < NAMES - NAME_ODD; i++) {
		names[NAME_ODD + i].name = (char *)odd_names[i];
		for (uint32_t k = 0; k < 3; k++) {
			uint64_t start =
				WINDOW_START + ((i == ODD_INNER ? ODD_INNER - 1 : i) * 3 + k) * MS;

			add_span(SPAN_OP, NAME_ODD + i, ODD_THREAD,
				 start + (i == ODD_INNER ? MS / 8 : 0),
				 start + (i == ODD_INNER ? MS / 4 : MS / 2), 0, 0);
		}
	}
}

static uint64_t block_bytes(uint32_t i)
{
	return 100 * (uint64_t)(i + 1);
}

static enum allocator block_allocator(uint32_t i)
{
	return i % 2 ? ALLOCATOR_BFC : ALLOCATOR_CPU;
}

/* A block is freed before the next one is allocated. */
static void add_odd_rest(void)
{
	for (uint32_t i = 0; i < BLOCKS; i++) {
		memory[2 * i] = (struct memory_event){ .at_ns = ODD_START + i * MS,
						       .address = 4096 + i,
						       .bytes = block_bytes(i),
						       .op = NAME_ODD + i / 3,
						       .thread = ODD_THREAD,
						       .allocator = block_allocator(i) };
		memory[2 * i + 1] = memory[2 * i];
		memory[2 * i + 1].at_ns += MS / 2;
		memory[2 * i + 1].op = TEXT_NONE;
		memory[2 * i + 1].freed = true;
	}
	timeline.memory = memory;
	timeline.n_memory = 2 * BLOCKS;
	for (uint32_t i = 0; i < CPUS * SLICES_PER_CPU; i++)
		slices[i] =
			(struct cpu_slice){ .start_ns = ODD_START + i % SLICES_PER_CPU * MS,
					    .end_ns = ODD_START + i % SLICES_PER_CPU * MS + MS / 2,
					    .thread = i % THREADS,
					    .cpu = (uint16_t)(i / SLICES_PER_CPU),
					    .reason = NAME_FUTEX,
					    .waker = (int32_t)((i + 1) % THREADS) };
	timeline.slices = slices;
	timeline.n_slices = CPUS * SLICES_PER_CPU;
}

static void print_memory(const char *name, enum allocator allocator)
{
	const char *comma = "";

	printf("\"%s\": [", name);
	for (uint32_t i = 0; i < BLOCKS && timeline.n_memory; i++)
		if (block_allocator(i) == allocator) {
			printf("%s%llu", comma, (unsigned long long)block_bytes(i));
			comma = ", ";
		}
	printf("]");
}

static int compare_requests(const void *a, const void *b)
{
	const struct request *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static int build(void)
{
	for (uint32_t i = 0; i < THREADS; i++) {
		threads[i].tid = 200 + i;
		snprintf(threads[i].name, sizeof(threads[i].name), "thread %u", i);
	}
	threads[OTHER].process = 1;
	timeline.n_batches = BATCHES + 1;
	timeline.n_batch_tasks = ARRAY_SIZE(tasks);
	add_requests();
	qsort(requests, timeline.n_requests, sizeof(requests[0]), compare_requests);
	for (uint32_t i = 0; i < timeline.n_requests; i++) {
		struct request *q = &requests[i];

		q->first_segment = timeline.n_segments;
		if (q->id >> 32 == KIND_SINGLE)
			run_single(q, i);
		else if (q->id >> 32 == KIND_BATCHED)
			run_batched(q, i);
	}
	/* Runs of a process whose requests are not recorded, unattributed runs, and a truncated
	 * batch. */
	for (uint32_t i = 0; i < OTHER_RUNS; i++)
		add_span(SPAN_RUN, NAME_RUN, OTHER, WINDOW_START + i * 100 * MS,
			 WINDOW_START + i * 100 * MS + (i + 1) * MS, 8000 + i, 0);
	for (uint32_t i = 0; i < 5; i++)
		add_span(SPAN_RUN, NAME_RUN, LONELY, WINDOW_START + i * 1000 * MS,
			 WINDOW_START + i * 1000 * MS + 900 * MS, 9000 + i, 0);
	batches[BATCHES] = (struct batch){ .start_ns = WINDOW_START + 9800 * MS,
					   .end_ns = timeline.end_ns,
					   .thread = BATCH_THREAD,
					   .flags = SPAN_TRUNCATED_END,
					   .first_task = ARRAY_SIZE(tasks) };
	add_span(SPAN_BATCH, NAME_RUN, BATCH_THREAD, WINDOW_START + 9800 * MS, timeline.end_ns,
		 BATCHES, 0);
	return timeline_assign_lanes(&timeline);
}

/* timeline_finish() would free what it replaces. */
static int compare_spans(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->end_ns > y->end_ns ? -1 : x->end_ns < y->end_ns;
}

static void print_latencies(const char *name, enum kind kind)
{
	const char *comma = "";

	printf("\"%s\": [", name);
	for (uint32_t i = 0; i < timeline.n_requests; i++)
		if (requests[i].id >> 32 == kind) {
			printf("%s%llu", comma,
			       (unsigned long long)(requests[i].end_ns - requests[i].start_ns));
			comma = ", ";
		}
	printf("]");
}

static int write_result(const char *path, unsigned int level, const struct export_extras *extras)
{
	const struct export_options options = { .level = level,
						.hostname = "host",
						.extras = *extras };
	struct xspace_result result = {};
	FILE *file = NULL;
	int r = export_xspace(&timeline, &options, &result);

	if (r < 0)
		return r;
	file = fopen(path, "w");
	for (size_t i = 0; file && i < result.n_chunks; i++)
		if (fwrite(result.chunks[i].iov_base, 1, result.chunks[i].iov_len, file) !=
		    result.chunks[i].iov_len)
			r = -EIO;
	xspace_result_done(&result);
	return !file || fclose(file) ? -EIO : r;
}

int main(int argc, char **argv)
{
	bool odd = argc > 3 && !strcmp(argv[3], "odd");
	const struct export_extras extras = {
		.device_plane = argc > 3 && !strcmp(argv[argc - 1], "device"),
		.input_stages = argc > 3 && !strcmp(argv[argc - 1], "stages")
	};
	int r = argc == 3 + odd + extras.device_plane + extras.input_stages ? build() : -EINVAL;

	if (odd) {
		make_odd();
		add_odd_rest();
	}
	qsort(spans, timeline.n_spans, sizeof(spans[0]), compare_spans);
	if (r >= 0)
		r = write_result(argv[1], (unsigned int)atoi(argv[2]), &extras);
	if (r < 0) {
		fprintf(stderr, "requests_xspace: %s\n", strerror(-r));
		return 1;
	}
	printf("{\"latencies\": {");
	print_latencies("alpha:1", KIND_SINGLE);
	printf(", ");
	print_latencies("beta:2", KIND_BATCHED);
	printf(", ");
	print_latencies("/healthz", KIND_CHECK);
	printf(", \"runs of other/900\": [");
	for (uint32_t i = 0; i < OTHER_RUNS; i++)
		printf("%s%llu", i ? ", " : "", (unsigned long long)((i + 1) * MS));
	printf("]}, \"memory\": {");
	print_memory("cpu", ALLOCATOR_CPU);
	printf(", ");
	print_memory("BFC", ALLOCATOR_BFC);
	printf("}, \"slices\": %llu, \"batches\": %d, \"lanes\": %u, \"ops\": %d}\n",
	       (unsigned long long)timeline.n_slices, BATCHES, timeline.n_lanes, SINGLE + BATCHES);
	return 0;
}
