#include "daemon/broker/calibration.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "include/record_types.h"
#include "lib/base/macro.h"
#include "lib/proc/maps.h"

/*
 * As many rounds as there is time for. What else runs on the machine makes most of the disturbed ones longer, and few shorter: the first
 * quartile of them counts.
 */
#define ROUNDS 64
#define ROUNDS_NS 80000000ull
#define EMULATED_CALLS 50
#define STEPPED_CALLS 8
/* Each may wait for the time slices of all others that want the CPU. */
#define YIELDS 32
/* The kernel replaces the breakpoint by a call at one of the first hits. */
#define LEAF_CALLS 1000
#define ANSWER_MS 500
#define COST_MIN_NS 50
#define COST_MAX_NS 1000000

/*
 * Functions whose probed instructions are known: push is emulated by the kernel, mov is single-stepped, and the leaf keeps its argument
 * below the stack pointer across a 5-byte nop, as compilers let it. They are reached by direct calls only.
 */
__asm__(".pushsection .text\n"
	".p2align 4\n"
	".type calibration_emulated, @function\n"
	"calibration_emulated:\n"
	"	push	%rbp\n"
	"	mov	%rsp, %rbp\n"
	"	mov	%rdi, %rax\n"
	"	pop	%rbp\n"
	"	ret\n"
	".size calibration_emulated, . - calibration_emulated\n"
	".p2align 4\n"
	".type calibration_stepped, @function\n"
	"calibration_stepped:\n"
	"	mov	%rdi, %rax\n"
	"	ret\n"
	".size calibration_stepped, . - calibration_stepped\n"
	".p2align 4\n"
	".type calibration_leaf, @function\n"
	"calibration_leaf:\n"
	"	mov	%rdi, -8(%rsp)\n"
	"	mov	%rdi, -16(%rsp)\n"
	"calibration_leaf_nop:\n"
	"	.byte	0x0f, 0x1f, 0x44, 0x00, 0x00\n"
	"	mov	-8(%rsp), %rax\n"
	"	add	-16(%rsp), %rax\n"
	"	ret\n"
	".size calibration_leaf, . - calibration_leaf\n"
	".popsection\n");
uint64_t calibration_emulated(uint64_t value);
uint64_t calibration_stepped(uint64_t value);
uint64_t calibration_leaf(uint64_t value);
extern const char calibration_leaf_nop[];

/* What the child answers: nanoseconds of CPU time per call, and per turn with its partner. */
struct measurement {
	double emulated, stepped, turn;
	uint32_t wrong; /* results of the leaf */
};

/*
 * What a program does between two hits: it has data and code of its own in the caches, which the kernel's part of a hit puts out of them.
 * In a loop without it a hit costs half of what it costs a busy server (make bench compares the two).
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

/* The child's child. */
struct partner {
	pid_t pid;
	int socket;
	bool *yields; /* shared */
};

struct child {
	pid_t pid;
	int socket;
};

static uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void add_sample(struct samples *s, double value)
{
	unsigned i;

	for (i = s->n++; i && s->value[i - 1] > value; i--)
		s->value[i] = s->value[i - 1];
	s->value[i] = value;
}

static double quartile(const struct samples *s)
{
	return s->n ? s->value[s->n / 4] : 0;
}

static void measure_calls(struct samples *emulated, struct samples *stepped)
{
	uint64_t begin = now(CLOCK_THREAD_CPUTIME_ID), middle;

	for (uint64_t i = 0; i < EMULATED_CALLS; i++)
		calibration_emulated(work(i));
	middle = now(CLOCK_THREAD_CPUTIME_ID);
	for (uint64_t i = 0; i < STEPPED_CALLS; i++)
		calibration_stepped(work(i));
	add_sample(emulated, (double)(middle - begin) / EMULATED_CALLS);
	add_sample(stepped, (double)(now(CLOCK_THREAD_CPUTIME_ID) - middle) / STEPPED_CALLS);
}

static uint64_t count_switches(void)
{
	struct rusage usage = {};

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
}

/*
 * Two processes on one CPU, each of which gives it to the other. A turn is two records, of which either process pays one. Whoever else
 * runs there meanwhile pays for itself.
 */
static void measure_turns(struct samples *samples, const struct partner *partner)
{
	uint64_t begin, turns;

	__atomic_store_n(partner->yields, true, __ATOMIC_RELEASE);
	if (write(partner->socket, "", 1) != 1)
		_exit(EXIT_FAILURE);
	sched_yield();
	turns = count_switches();
	begin = now(CLOCK_THREAD_CPUTIME_ID);
	for (unsigned i = 0; i < YIELDS; i++)
		sched_yield();
	begin = now(CLOCK_THREAD_CPUTIME_ID) - begin;
	turns = count_switches() - turns;
	__atomic_store_n(partner->yields, false, __ATOMIC_RELEASE);
	if (turns > YIELDS / 4)
		add_sample(samples, (double)begin / (double)turns);
}

static void die_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILURE);
}

static void yield_when_told(int socket, const bool *yields)
{
	char byte;

	while (read(socket, &byte, 1) == 1)
		while (__atomic_load_n(yields, __ATOMIC_ACQUIRE))
			sched_yield();
	_exit(EXIT_SUCCESS);
}

/* A process, as threads are nothing to be made after a fork. */
static bool start_partner(struct partner *ret)
{
	pid_t self = getpid();
	cpu_set_t here;
	int pair[2];

	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	ret->yields = mmap(NULL, sizeof(*ret->yields), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ret->yields == MAP_FAILED || sched_setaffinity(0, sizeof(here), &here) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	ret->pid = fork();
	if (!ret->pid) {
		die_with(self);
		close(pair[0]);
		yield_when_told(pair[1], ret->yields);
	}
	close(pair[1]);
	ret->socket = pair[0];
	return ret->pid > 0;
}

/* Says which process its partner is, then measures whenever it is asked to. */
static void run_child(int socket)
{
	struct partner partner;
	uint64_t begin;
	char byte;

	if (!start_partner(&partner) || write(socket, &partner.pid, sizeof(partner.pid)) != sizeof(partner.pid))
		_exit(EXIT_FAILURE);
	while (read(socket, &byte, 1) == 1) {
		struct samples emulated = {}, stepped = {}, turns = {};
		struct measurement m = {};

		begin = now(CLOCK_MONOTONIC);
		for (unsigned i = 0; i < ROUNDS && now(CLOCK_MONOTONIC) - begin < ROUNDS_NS; i++) {
			measure_calls(&emulated, &stepped);
			measure_turns(&turns, &partner);
		}
		m.emulated = quartile(&emulated);
		m.stepped = quartile(&stepped);
		m.turn = quartile(&turns);
		for (uint64_t i = 0; i < LEAF_CALLS; i++)
			m.wrong += calibration_leaf(i) != 2 * i;
		if (write(socket, &m, sizeof(m)) != sizeof(m))
			break;
	}
	_exit(EXIT_SUCCESS);
}

static int start_child(struct child *ret)
{
	pid_t self = getpid(), pid;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		die_with(self);
		close(pair[0]);
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
	/* Not waited for yet, so that the number is its own. Its partner goes with it. */
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
	/* Whole: it is written by one call. */
	return read(child->socket, to, size) == (ssize_t)size ? 0 : -ECHILD;
}

static int child_measure(const struct child *child, struct measurement *ret)
{
	if (send(child->socket, "", 1, MSG_NOSIGNAL) != 1)
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

/* Probes one of our own instructions, in the child alone. */
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
	return attachment_add_site(a, &(struct attach_site){ .pid = pid, .file = program, .offset = place.offset,
							     .cookie = COOKIE_MAKE(0, 0, REGISTER_RDI, REGISTER_NONE, REGISTER_NONE,
									   ACTION_ENTRY, 0, 0, 0),
							     .kind = KIND_RUNS });
}

static int attach(struct attachment *a, const struct child *child, pid_t partner, const char **ret_reason)
{
	const void *const places[] = { (const void *)calibration_emulated, (const void *)calibration_stepped, calibration_leaf_nop };
	_cleanup_close_ int program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const struct record_control control = { .window_start = 1, .window_stop = UINT64_MAX };
	int fds[BROKER_MAX_FDS], r;
	uint32_t zero = 0;

	r = program < 0 ? -errno : attachment_add_target(a, child->pid);
	if (r >= 0)
		r = attachment_add_target(a, partner);
	for (unsigned i = 0; i < ARRAY_SIZE(places) && r >= 0; i++)
		r = add_site(a, child->pid, program, places[i]);
	if (r >= 0)
		r = attachment_attach(a, ret_reason);
	if (r < 0)
		return r;
	attachment_fds(a, fds);
	return bpf_map_update_elem(fds[0], &zero, &control, 0) < 0 ? -errno : 0;
}

/* 0: no figure that a kernel could have. */
static uint32_t cost(double with, double without)
{
	double ns = with - without;

	return ns >= COST_MIN_NS && ns <= COST_MAX_NS ? (uint32_t)ns : 0;
}

static int measure(struct attachment *a, const struct child *child, struct broker_calibration *ret, const char **ret_reason)
{
	struct measurement without, with;
	pid_t partner;
	int r;

	r = child_read(child, &partner, sizeof(partner));
	if (r >= 0)
		r = child_measure(child, &without);
	if (r >= 0)
		r = attach(a, child, partner, ret_reason);
	*ret_reason = "the machine is too busy to measure what probes cost";
	if (r >= 0)
		r = child_measure(child, &with);
	if (r < 0)
		return r;
	/* Wrong without a probe: what it tells with one is worth nothing. */
	ret->nop5 = without.wrong ? NOP5_UNKNOWN : with.wrong ? NOP5_CORRUPTS : NOP5_SAFE;
	ret->emulated_ns = cost(with.emulated, without.emulated);
	ret->stepped_ns = cost(with.stepped, without.stepped);
	/* The cheapest of them is what other processes disturb first; it is little beside the rest. */
	ret->switch_ns = cost(with.turn, without.turn) ?: COST_MIN_NS;
	if (!ret->emulated_ns || ret->stepped_ns <= ret->emulated_ns)
		return -EBUSY;
	return 0;
}

int calibration_measure(enum attach_mode mode, struct program_cache *cache, struct broker_calibration *ret, const char **ret_reason)
{
	struct broker_calibration measured;
	struct attachment *a = NULL;
	struct child child = { .socket = -1 };
	int r;

	*ret_reason = "cannot start a process to measure with";
	r = start_child(&child);
	if (r < 0)
		return r;
	/* At this level the scheduler's programs are among them. */
	r = attachment_new(mode, 2, cache, &a, ret_reason);
	if (r >= 0)
		r = measure(a, &child, &measured, ret_reason);
	end_child(&child);
	attachment_free(a);
	if (r >= 0)
		*ret = measured;
	return r;
}
