/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/kernel/calibration.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "daemon/broker/kernel/program_cache.h"
#include "include/record_types.h"
#include "lib/base/clock.h"
#include "lib/base/macro.h"
#include "lib/proc/maps.h"

/*
 * Several batches of as many rounds as time permits. In each round the same work is done with and
 * without a probe, so that other load on the machine disturbs both; the median counts, and a
 * measurement whose batches disagree is discarded.
 */
#define BATCHES 5
#define ROUNDS 64
#define ROUNDS_NS 20000000ull
#define SPREAD_MAX 0.4
#define EMULATED_CALLS 50
#define STEPPED_CALLS 8
/* Each may wait for the time slices of everything else that wants the CPU. */
#define YIELDS 32
#define SYSTEM_CALLS 64
/* The kernel replaces the breakpoint with a call at one of the first hits. */
#define LEAF_CALLS 1000
#define ANSWER_MS 500
#define PROBES 3
#define COST_MIN_NS 50
#define COST_MAX_NS 1000000

/*
 * Functions whose probed instructions are known: push is emulated by the kernel, mov is
 * single-stepped, and the leaf keeps its argument below the stack pointer across a 5-byte nop, as
 * compilers may do. They are reached by calls only; a twin of each has no probe.
 */
#define TWICE(name, body) PLACE(name, body) PLACE(name "_plain", body)
#define PLACE(name, body)                                                                          \
	"	.p2align 4\n	.type " name ", @function\n" name ":\n" body ".size " name         \
	", . - " name "\n"
__asm__(".pushsection .text\n" TWICE("calibration_emulated", "	push	%rbp\n"
							     "	mov	%rsp, %rbp\n"
							     "	mov	%rdi, %rax\n"
							     "	pop	%rbp\n"
							     "	ret\n")
		TWICE("calibration_stepped", "	mov	%rdi, %rax\n"
					     "	ret\n")
			PLACE("calibration_leaf", "	mov	%rdi, -8(%rsp)\n"
						  "	mov	%rdi, -16(%rsp)\n"
						  "calibration_leaf_nop:\n"
						  "	.byte	0x0f, 0x1f, 0x44, 0x00, 0x00\n"
						  "	mov	-8(%rsp), %rax\n"
						  "	add	-16(%rsp), %rax\n"
						  "	ret\n") ".popsection\n");
uint64_t calibration_emulated(uint64_t value);
uint64_t calibration_emulated_plain(uint64_t value);
uint64_t calibration_stepped(uint64_t value);
uint64_t calibration_stepped_plain(uint64_t value);
uint64_t calibration_leaf(uint64_t value);
extern const char calibration_leaf_nop[];

/* What the child answers for a batch: the CPU time of a hit in nanoseconds, and that of a turn with
 * its partner. */
struct measurement {
	double emulated, stepped, turn;
	/* A system call that is not followed; one that passes a message through a socket. */
	double call, message;
	uint32_t wrong; /* results of the leaf */
};

enum batch { BATCH_CALLS = 'c', BATCH_TURNS = 't', BATCH_SYSTEM = 's' };

/*
 * Imitates what a program does between two hits: its own data and code evict those of the kernel's
 * part of a hit from the caches. In a loop without it a hit costs half of what it costs in a busy
 * server (make bench compares the two).
 */
#define CHURN_BYTES (1u << 20)

static uint8_t churn[CHURN_BYTES];

static uint64_t work(uint64_t seed)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < CHURN_BYTES / 64 / 8; i++) {
		uint8_t *line = &churn[(i * 8 + seed % 8) * 64];

		sum += *line;
		*line = (uint8_t)sum;
	}
	return sum;
}

/* In ascending order. */
struct samples {
	unsigned n;
	double value[ROUNDS];
};

/* A child of the child. */
struct partner {
	pid_t pid;
	int socket;
	bool *yields; /* shared */
};

struct child {
	pid_t pid;
	int socket;
};

static void add_sample(struct samples *s, double value)
{
	unsigned i;

	for (i = s->n++; i && s->value[i - 1] > value; i--)
		s->value[i] = s->value[i - 1];
	s->value[i] = value;
}

static double median(const struct samples *s)
{
	return s->n ? s->value[s->n / 2] : 0;
}

/* Nanoseconds per call. */
static double time_calls(uint64_t (*function)(uint64_t), unsigned n)
{
	uint64_t begin = clock_now(CLOCK_THREAD_CPUTIME_ID);

	for (uint64_t i = 0; i < n; i++)
		function(work(i));
	return (double)(clock_now(CLOCK_THREAD_CPUTIME_ID) - begin) / n;
}

static void measure_calls(struct samples *emulated, struct samples *stepped)
{
	double plain = time_calls(calibration_emulated_plain, EMULATED_CALLS);

	add_sample(emulated, time_calls(calibration_emulated, EMULATED_CALLS) - plain);
	plain = time_calls(calibration_stepped_plain, STEPPED_CALLS);
	add_sample(stepped, time_calls(calibration_stepped, STEPPED_CALLS) - plain);
}

static uint64_t count_switches(void)
{
	struct rusage usage = {};

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
}

/*
 * Two processes on one CPU, each of which yields it to the other. A turn is two records, of which
 * each process pays for one. Other processes that run there meanwhile pay for themselves.
 */
static void measure_turns(struct samples *samples, const struct partner *partner)
{
	uint64_t begin, turns;

	__atomic_store_n(partner->yields, true, __ATOMIC_RELEASE);
	if (write(partner->socket, "", 1) != 1)
		_exit(EXIT_FAILURE);
	sched_yield();
	turns = count_switches();
	begin = clock_now(CLOCK_THREAD_CPUTIME_ID);
	for (unsigned i = 0; i < YIELDS; i++)
		sched_yield();
	begin = clock_now(CLOCK_THREAD_CPUTIME_ID) - begin;
	turns = count_switches() - turns;
	__atomic_store_n(partner->yields, false, __ATOMIC_RELEASE);
	if (turns > YIELDS / 4)
		add_sample(samples, (double)begin / (double)turns);
}

/* Calls that only the tracepoints themselves see, and a small request that is written and read. */
static void measure_system(struct samples *calls, struct samples *messages, const int pair[2])
{
	/* Of a typical length. */
	static const char request[] =
		"POST /v1/models/some_model:predict HTTP/1.1\r\nHost: localhost:8501\r\nUser-Agent: some-client/1.2.3\r\n"
		"Accept-Encoding: gzip, deflate\r\nAccept: */*\r\nConnection: keep-alive\r\n"
		"Content-Type: application/json\r\nX-Request-Id: 0123456789abcdef\r\nContent-Length: 0\r\n\r\n";
	char bytes[sizeof(request)];
	uint64_t begin = clock_now(CLOCK_THREAD_CPUTIME_ID);

	for (unsigned i = 0; i < SYSTEM_CALLS; i++)
		syscall(SYS_getppid);
	add_sample(calls, (double)(clock_now(CLOCK_THREAD_CPUTIME_ID) - begin) / SYSTEM_CALLS);
	begin = clock_now(CLOCK_THREAD_CPUTIME_ID);
	for (unsigned i = 0; i < SYSTEM_CALLS / 2; i++) {
		if (write(pair[0], request, sizeof(request) - 1) != sizeof(request) - 1 ||
		    read(pair[1], bytes, sizeof(bytes)) != sizeof(request) - 1)
			_exit(EXIT_FAILURE);
		work(i);
	}
	add_sample(messages, (double)(clock_now(CLOCK_THREAD_CPUTIME_ID) - begin) / SYSTEM_CALLS);
}

static void die_with_parent(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILURE);
}

static void yield_on_request(int socket, const bool *yields)
{
	char byte;

	while (read(socket, &byte, 1) == 1)
		while (__atomic_load_n(yields, __ATOMIC_ACQUIRE))
			sched_yield();
	_exit(EXIT_SUCCESS);
}

/* A process, because threads must not be created after a fork. */
static bool start_partner(struct partner *ret)
{
	pid_t self = getpid();
	cpu_set_t here;
	int pair[2];

	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	ret->yields = mmap(NULL, sizeof(*ret->yields), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	/* Where it is forbidden, the costs of switches are estimated from those of probes. */
	if (ret->yields == MAP_FAILED ||
	    (sched_setaffinity(0, sizeof(here), &here) < 0 && errno != EPERM) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	ret->pid = fork();
	if (!ret->pid) {
		die_with_parent(self);
		close(pair[0]);
		yield_on_request(pair[1], ret->yields);
	}
	close(pair[1]);
	ret->socket = pair[0];
	return ret->pid > 0;
}

/* Reports the pid of its partner, then measures whenever it is asked to. */
static void run_child(int socket)
{
	struct partner partner;
	uint64_t begin;
	int pair[2];
	char byte;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		_exit(EXIT_FAILURE);
	if (!start_partner(&partner) ||
	    write(socket, &partner.pid, sizeof(partner.pid)) != sizeof(partner.pid))
		_exit(EXIT_FAILURE);
	while (read(socket, &byte, 1) == 1) {
		struct samples emulated = {}, stepped = {}, turns = {}, calls = {}, messages = {};
		struct measurement m = {};

		begin = clock_now(CLOCK_MONOTONIC);
		for (unsigned i = 0; i < ROUNDS && clock_now(CLOCK_MONOTONIC) - begin < ROUNDS_NS;
		     i++)
			if (byte == BATCH_CALLS)
				measure_calls(&emulated, &stepped);
			else if (byte == BATCH_SYSTEM)
				measure_system(&calls, &messages, pair);
			else
				measure_turns(&turns, &partner);
		m.emulated = median(&emulated);
		m.stepped = median(&stepped);
		m.turn = median(&turns);
		m.call = median(&calls);
		m.message = median(&messages);
		for (uint64_t i = 0; byte == BATCH_CALLS && i < LEAF_CALLS; i++)
			m.wrong += calibration_leaf(i) != 2 * i;
		if (write(socket, &m, sizeof(m)) != sizeof(m))
			break;
	}
	_exit(EXIT_SUCCESS);
}

static void close_others(int kept)
{
	if (kept > STDERR_FILENO + 1)
		close_range(STDERR_FILENO + 1, (unsigned)kept - 1, 0);
	close_range((unsigned)kept + 1, ~0u, 0);
}

static int start_child(struct child *ret)
{
	pid_t self = getpid(), pid;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		die_with_parent(self);
		close(pair[0]);
		/* This process must not hold the broker's links to other processes. */
		close_others(pair[1]);
		run_child(pair[1]);
	}
	close(pair[1]);
	if (pid < 0) {
		int r = -errno;

		close(pair[0]);
		return r;
	}
	*ret = (struct child){ .pid = pid, .socket = pair[0] };
	return 0;
}

static void end_child(struct child *child)
{
	close(child->socket);
	/* Not waited for yet, so that its pid is not reused. Its partner dies with it. */
	kill(child->pid, SIGKILL);
	while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static int child_read(const struct child *child, void *to, size_t size)
{
	struct pollfd p = { .fd = child->socket, .events = POLLIN };
	int r = poll(&p, 1, ANSWER_MS);

	if (r <= 0)
		return r < 0 ? -errno : -ETIMEDOUT;
	/* It arrives whole: it is written by one call. */
	return read(child->socket, to, size) == (ssize_t)size ? 0 : -ECHILD;
}

static int child_measure(const struct child *child, enum batch batch, struct measurement *ret)
{
	char byte = (char)batch;

	if (send(child->socket, &byte, 1, MSG_NOSIGNAL) != 1)
		return -errno;
	return child_read(child, ret, sizeof(*ret));
}

struct place {
	uint64_t address, offset;
};

static int find_place(const struct maps_entry *e, void *data)
{
	struct place *place = data;

	if (place->address < e->start || place->address >= e->end)
		return 0;
	place->offset = e->offset + (place->address - e->start);
	return 1;
}

/* Probes one instruction of this program, in the child alone. */
static int add_site(struct attachment *a, pid_t pid, int program, const void *address)
{
	_cleanup_close_ int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct place place = { .address = (uint64_t)(uintptr_t)address };
	int r;

	if (maps < 0)
		return -errno;
	r = maps_read(maps, find_place, &place);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	return attachment_add_site(
		a,
		&(struct attach_site){ .pid = pid,
				       .file = program,
				       .offset = place.offset,
				       .cookie = COOKIE_MAKE(0, 0, REGISTER_RDI, REGISTER_NONE,
							     REGISTER_NONE, ACTION_ENTRY, 0, 0, 0),
				       .kind = KIND_RUNS });
}

static int attach(struct attachment *a, const struct child *child, pid_t partner,
		  const char **ret_reason)
{
	const void *const places[PROBES] = { (const void *)calibration_emulated,
					     (const void *)calibration_stepped,
					     calibration_leaf_nop };
	_cleanup_close_ int program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct refused refused = {};
	int r;

	/* Their ids are theirs until this process waits for them. */
	r = program < 0 ? -errno : attachment_add_target(a, child->pid, clock_now(CLOCK_MONOTONIC));
	if (r >= 0)
		r = attachment_add_target(a, partner, clock_now(CLOCK_MONOTONIC));
	for (unsigned i = 0; i < ARRAY_SIZE(places) && r >= 0; i++)
		r = add_site(a, child->pid, program, places[i]);
	if (r >= 0)
		r = attachment_attach(a, &refused, ret_reason);
	for (unsigned i = 0; i < refused.n_links; i++)
		detached_free(refused.links[i]);
	if (r >= 0 && refused.n)
		r = -EACCES;
	return r;
}

static int open_window(const struct attachment *a, bool open)
{
	const struct record_control control = { .window_start = open,
						.window_stop = open ? UINT64_MAX : 0 };
	int fds[BROKER_MAX_FDS];
	uint32_t zero = 0;

	attachment_fds(a, fds);
	return bpf_map_update_elem(fds[0], &zero, &control, 0) < 0 ? -errno : 0;
}

/* Nanoseconds; 0: not a plausible value. */
static uint32_t cost(const struct samples *batches)
{
	double ns = median(batches);

	return ns >= COST_MIN_NS && ns <= COST_MAX_NS ? (uint32_t)ns : 0;
}

/* Whether all but the lowest and the highest batch are close to one another. */
static bool agree(const struct samples *b)
{
	return b->n >= 3 && b->value[b->n - 2] - b->value[1] <= SPREAD_MAX * median(b);
}

/* Of a record without a probe. It is small compared with what is recorded, and may be lost in it:
 * then a fraction of a probe's cost is assumed. */
static uint32_t cost_of_record(const struct samples *batches, const struct broker_calibration *c)
{
	return cost(batches) ?: c->emulated_ns / 4;
}

/* The additional time per call while sockets are followed, compared with before. */
static int measure_sockets(const struct attachment *a, const struct child *child,
			   const struct measurement *before, struct broker_calibration *ret)
{
	struct samples calls = {}, messages = {};
	struct measurement with;
	int r = 0;

	for (unsigned i = 0; i < BATCHES && r >= 0; i++) {
		r = child_measure(child, BATCH_SYSTEM, &with);
		if (r < 0)
			return r;
		add_sample(&calls, with.call - before->call);
		add_sample(&messages, with.message - before->message);
	}
	ret->any_call_ns = attachment_slows_every_call(a) ? (uint32_t)MAX(median(&calls), 1.0) : 0;
	ret->call_ns = cost_of_record(&messages, ret);
	return 0;
}

static int measure_batches(struct attachment *a, const struct child *child,
			   struct broker_calibration *ret)
{
	struct samples emulated = {}, stepped = {}, turns = {};
	struct measurement without, with, calls = {};
	int r = 0;

	for (unsigned i = 0; i < BATCHES; i++) {
		r = open_window(a, false);
		if (r >= 0)
			r = child_measure(child, BATCH_TURNS, &without);
		if (r >= 0)
			r = open_window(a, true);
		if (r >= 0)
			r = child_measure(child, BATCH_TURNS, &with);
		if (r >= 0)
			r = child_measure(child, BATCH_CALLS, &calls);
		if (r < 0)
			return r;
		add_sample(&emulated, calls.emulated);
		add_sample(&stepped, calls.stepped);
		add_sample(&turns, with.turn - without.turn);
	}
	ret->nop5 = calls.wrong ? NOP5_CORRUPTS : NOP5_SAFE;
	ret->emulated_ns = cost(&emulated);
	ret->stepped_ns = cost(&stepped);
	ret->steady = agree(&emulated);
	ret->switch_ns = cost_of_record(&turns, ret);
	return ret->emulated_ns && ret->stepped_ns > ret->emulated_ns ? 0 : -EBUSY;
}

static int measure(struct attachment *a, const struct child *child, struct broker_calibration *ret,
		   const char **ret_reason)
{
	struct measurement before, system = {};
	pid_t partner;
	int r;

	r = child_read(child, &partner, sizeof(partner));
	if (r >= 0)
		r = child_measure(child, BATCH_CALLS, &before);
	for (unsigned i = 0; r >= 0 && i < 2; i++)
		r = child_measure(child, BATCH_SYSTEM, &system);
	if (r >= 0)
		r = attach(a, child, partner, ret_reason);
	if (r < 0)
		return r;
	*ret_reason = "the machine is too busy to measure the cost of probes";
	r = measure_batches(a, child, ret);
	if (r >= 0 && attachment_kinds(a) & KIND_BIT(KIND_SOCKETS))
		r = measure_sockets(a, child, &system, ret);
	/* The leaf's result is wrong even without a probe: its result with one means nothing. */
	if (r >= 0 && before.wrong)
		ret->nop5 = NOP5_UNKNOWN;
	return r;
}

int calibration_measure(enum attach_mode mode, struct program_cache *cache,
			struct broker_calibration *ret, char *ret_reason, size_t size)
{
	const char *reason = "cannot start the process for the measurement";
	struct broker_calibration measured = {};
	struct child child = { .socket = -1 };
	struct attachment *a = NULL;
	uint64_t begin;
	int r;

	r = start_child(&child);
	if (r >= 0) {
		reason = "";
		r = attachment_new(mode, PROGRAM_KINDS & ~KIND_BIT(KIND_STACKS), 0, cache, -1, &a,
				   ret_reason, size);
		if (r >= 0)
			r = measure(a, &child, &measured, &reason);
		end_child(&child);
	}
	begin = clock_now(CLOCK_MONOTONIC);
	attachment_free(a);
	measured.detach_us = (uint32_t)((clock_now(CLOCK_MONOTONIC) - begin) / 1000 /
					(mode == ATTACH_PERF_EVENT ? PROBES : 1));
	if (r >= 0)
		*ret = measured;
	else if (*reason)
		snprintf(ret_reason, size, "%s", reason);
	return r;
}
