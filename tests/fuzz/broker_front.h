/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front, its clients and the prover of fuzz_broker.c, and what is checked of the broker's
 * answers: the fuzzer knows by itself who each client is and what happened to it. The broker's
 * sources are included here.
 */
#pragma once

#include <arpa/inet.h>
#include <grp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "daemon/plan/proof.h"
#include "daemon/prover/prover.h"
#include "lib/base/directory.h"
#include "tests/fuzz/broker_host.h"

/* Detaching is done at once; and the line of captures is served by the fuzzer. */
#define syscall(number, pid, flags) host_pidfd(pid)
#define pthread_create(thread, attributes, function, data) ((void)(thread), (function)(data), 0)
#define pthread_detach(thread) ((void)0)
#include "daemon/broker/captures.c"
#include "daemon/broker/detacher.c"
#undef syscall
#undef pthread_create
#undef pthread_detach
#define pthread_create(thread, attributes, function, data) ((void)(thread), (void)(function), 0)
#define pthread_join(thread, result) ((void)0)
#include "daemon/broker/capture_line.c"
#undef pthread_create
#undef pthread_join
#include "daemon/broker/broker.c"

#define NOBODY 65534
#define PEERS 24
#define PLANNED_SITES_MAX 64
#define DESCRIPTORS 1024
/* What is left of the clients' table after an input is in these first bytes. */
#define CLIENTS_BYTES (PEERS * 4096)

enum step {
	STEP_MESSAGE, /* the most frequent one: also any number beyond these */
	STEP_CONNECT,
	STEP_CLOSE,
	STEP_PROVER,
	STEP_PROCESS,
	STEP_SIDEBAND,
	STEP_NOTE,
	STEP_TIME,
	STEP_RULES,
	STEP_BROKER,
	STEP_KERNEL,
	STEPS,
};

enum { LISTEN_UNIX, LISTEN_CERTIFIED, LISTEN_TCP, LISTENERS };

/* A client, as the kernel knows it. */
struct peer {
	int fd, connection; /* its end, and what the front has got; -1: closed */
	unsigned listener;
	enum { PEER_WAITS, PEER_ACCEPTED, PEER_REFUSED } state;
	bool is_gone;
	uint32_t id;
	char name[CERTIFICATE_NAME_MAX]; /* in the certificate that counts */
	struct caller caller;
};

/* A file that the prover is reading. */
struct job {
	struct prover_request request;
	int fds[PROVER_FDS_MAX];
	unsigned n_fds;
};

static struct front {
	struct broker *broker;
	/* The front's ends, or those of the supervisor and of the prover. */
	int quick, captures, events, notes, prover;
	uint32_t first_file; /* the number of the first one that was opened */
	struct peer peers[PEERS];
	unsigned n_peers;
	struct job jobs[PLANNER_AT_ONCE];
	unsigned n_jobs;
} f;

/* The same for every input. */
static int state, snapshots, clients, signals[2];
static const struct trigger_names triggers = { 2, { "a", "b-1" } };
static char state_path[] = "/dev/shm/tfprofd-fuzz-XXXXXX";
static struct listener listeners[LISTENERS];
static bool listeners_changed;
static struct authority rules;
static struct broker_options options;
static bool perf_events;

/* No line of the fuzzer gets into this host's journal. */
int connect(int fd, const struct sockaddr *address, socklen_t size)
{
	const struct sockaddr_un *un = (const void *)address;

	if (address->sa_family == AF_UNIX && un->sun_path[0]) {
		errno = ENOENT;
		return -1;
	}
	return (int)syscall(SYS_connect, fd, address, size);
}

static struct sockaddr_un unix_address(unsigned number)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "tfprofd-fuzz-%d-%u", getpid(),
		 number);
	return address;
}

static void new_listeners(void)
{
	for (unsigned i = 0; i < LISTENERS; i++) {
		const struct sockaddr_in in = { .sin_family = AF_INET,
						.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		const struct sockaddr_un un = unix_address(i);
		struct listener *l = &listeners[i];
		bool is_tcp = i == LISTEN_TCP;

		safe_close(l->fd);
		l->fd = socket(is_tcp ? AF_INET : AF_UNIX,
			       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		l->is_certified = i == LISTEN_CERTIFIED;
		if (bind(l->fd, is_tcp ? (const void *)&in : (const void *)&un,
			 is_tcp ? sizeof(in) : sizeof(un)) < 0 ||
		    listener_open(l->fd) < 0)
			abort();
	}
	listeners_changed = false;
}

static void remove_state(void)
{
	unlinkat(state, AUDIT_FILE, 0);
	unlinkat(state, AUDIT_FILE_OLD, 0);
	unlinkat(state, "plans", AT_REMOVEDIR);
	unlinkat(state, "snapshots", AT_REMOVEDIR);
	rmdir(state_path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	log_set_level(LOG_CRIT);
	signal(SIGPIPE, SIG_IGN);
	/* Nothing of root's can be reached by mistake. */
	if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
			       setresuid(NOBODY, NOBODY, NOBODY) < 0))
		abort();
	/* The sanitizer looks for leaks as a debugger does. */
	prctl(PR_SET_DUMPABLE, 1);
	if (!mkdtemp(state_path))
		abort();
	state = open(state_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	atexit(remove_state);
	mkdirat(state, "snapshots", 0700);
	snapshots = openat(state, "snapshots", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	clients = clients_memory_new();
	if (state < 0 || snapshots < 0 || clients < 0 || pipe2(signals, O_CLOEXEC) < 0)
		abort();
	for (unsigned i = 0; i < LISTENERS; i++)
		listeners[i].fd = -1;
	new_listeners();
	host_new();
	return 0;
}

static struct peer *peer_of(uint32_t id)
{
	for (unsigned i = 0; i < f.n_peers; i++)
		if (f.peers[i].state == PEER_ACCEPTED && f.peers[i].id == id)
			return &f.peers[i];
	return NULL;
}

/* false: it has gone. */
static bool find_caller(uint32_t client, struct caller *ret)
{
	const struct peer *p = peer_of(client);

	if (client == BROKER_DAEMON) {
		*ret = (struct caller){ .kind = CALLER_DAEMON, .uid = rules.daemon_user };
		return options.captures_on_its_own;
	}
	if (!p || p->is_gone)
		return false;
	*ret = p->caller;
	authority_name(&rules, ret, NULL, 0);
	return true;
}

static bool may_have(const struct caller *caller, const struct process *p, unsigned kinds)
{
	struct authority_ceiling ceiling;
	struct target_facts facts;
	char text[192];

	return target_facts_read(p->pid, &facts) == 0 &&
	       authority_decide(&rules, caller, &facts, &ceiling, text, sizeof(text)) == 0 &&
	       !(kinds & ~authority_kinds(&ceiling));
}

static void check_attached(const struct attachment *a)
{
	const struct capture *c = f.broker->captures->captures->captures;
	struct caller caller;

	while (c->attachment != a)
		c++;
	if (!find_caller(c->client, &caller)) {
		if (a->n_sites)
			violation("a probe of a client that has gone");
		return;
	}
	for (size_t i = 0; i < a->n_sites; i++) {
		const struct attach_site *site = &a->sites[i].site;
		const struct process *p = process_get(site->pid);

		if (!p || p->life != a->sites[i].life || !may_have(&caller, p, 1u << site->kind))
			violation("a probe in a process of another user");
	}
	for (unsigned i = 0; i < a->n_targets; i++) {
		const struct process *p = process_get(a->targets[i].pid);

		if (p && p->life == a->targets[i].life &&
		    !may_have(&caller, p, a->kinds & PROGRAM_KINDS))
			violation("a process of another user is recorded");
	}
}

static bool has_value(uint32_t type, unsigned n_fds)
{
	switch (type) {
	case BROKER_ACCEPT:
	case BROKER_MAPS:
	case BROKER_PLAN:
	case BROKER_FUNCTIONS:
	case BROKER_MODULE:
	case BROKER_SNAPSHOT:
		return n_fds == 1;
	case BROKER_CAPTURE:
		return n_fds == ARRAY_SIZE(fake.capture_fds);
	default:
		return n_fds == 0;
	}
}

/* As tests/hostile/hostile_front.c. */
static void check_descriptor(uint32_t type, int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		violation("a descriptor that is none");
	if ((flags & O_ACCMODE) != O_RDONLY && type != BROKER_CAPTURE && type != BROKER_ACCEPT &&
	    type != BROKER_SNAPSHOT &&
	    ((type != BROKER_PLAN && type != BROKER_FUNCTIONS) || pwrite(fd, "", 1, 0) >= 0))
		violation("a descriptor that can be written");
}

static void on_accepted(const struct broker_message *m, unsigned listener, int connection)
{
	struct peer *p = f.peers;
	const bool may_ptrace = fake.processes[0].may_ptrace;

	while (p < f.peers + f.n_peers && (p->state != PEER_WAITS || p->listener != listener))
		p++;
	if (p == f.peers + f.n_peers)
		violation("a connection of nobody");
	p->state = m->result == 0 ? PEER_ACCEPTED : PEER_REFUSED;
	p->id = m->id;
	p->connection = connection;
	p->caller = (struct caller){ .kind = CALLER_UNKNOWN, .uid = (uid_t)-1 };
	if (listener == LISTEN_TCP)
		p->caller = (struct caller){ .kind = CALLER_TCP, .uid = getuid() };
	if (listener == LISTEN_UNIX)
		p->caller = (struct caller){
			.kind = CALLER_PROCESS,
			.uid = getuid(),
			.effective = may_ptrace ? 1u << CAP_SYS_PTRACE : 0,
			.permitted = may_ptrace ? 1u << CAP_SYS_PTRACE : 0,
			.user_ns = { 'u', 1 },
			.pid_ns = { 'p', fake.processes[0].is_contained ? 2 : 1 },
		};
}

static void on_certified(const struct broker_message *asked)
{
	struct peer *p = peer_of(asked->id);
	char name[CERTIFICATE_NAME_MAX];
	uid_t uid;

	snprintf(name, sizeof(name), "%.*s", (int)sizeof(name) - 1, asked->name);
	if (!p || p->listener != LISTEN_CERTIFIED || *p->name ||
	    certificates_find(&(struct certificates){ fake.certificates_moved }, name, &uid) < 0)
		violation("a certificate of nobody");
	p->caller = (struct caller){ .kind = CALLER_CERTIFIED, .uid = uid };
	memcpy(p->name, name, sizeof(name));
}

static void check_answer(const struct broker_message *asked, int line)
{
	int fds[BROKER_MAX_FDS], kept = -1;
	struct broker_message m;
	unsigned n = 0;

	if (channel_receive(line, &m, sizeof(m), fds, BROKER_MAX_FDS, &n) < 0)
		violation("no answer");
	if (m.type != asked->type || m.result > 0 || !memchr(m.text, 0, sizeof(m.text)) ||
	    (m.result < 0 && n) || (m.result == 0 && !has_value(m.type, n)))
		violation("an answer of another form");
	for (unsigned i = 0; i < n; i++)
		check_descriptor(m.type, fds[i]);
	if (m.type == BROKER_SNAPSHOT && n && write(fds[0], asked->name, asked->count % 64) < 0)
		abort();
	if (m.type == BROKER_ACCEPT && (m.result == 0 || m.result == -EACCES)) {
		kept = n ? fds[0] : -1;
		on_accepted(&m, asked->index, kept);
	}
	for (unsigned i = kept >= 0; i < n; i++)
		close(fds[i]);
	if (m.result < 0)
		return;
	if (m.type == BROKER_OPEN && !f.first_file)
		f.first_file = m.id;
	if (m.type == BROKER_CERTIFY)
		on_certified(asked);
	if (m.type == BROKER_CLIENT_GONE && peer_of(m.id))
		peer_of(m.id)->is_gone = true;
}
