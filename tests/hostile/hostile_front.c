/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A front that was taken over: starts the broker and the prover as tfprofd does, and sends the
 * broker what it likes. As root.
 *
 * usage: hostile_front STATE-DIRECTORY USER OWN-PID FOREIGN-PID MESSAGES SEED
 * There are two clients, of USER and of nobody. OWN-PID is a process of USER, FOREIGN-PID one of
 * root. Prints "N violations" at the end, and each of them before.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "daemon/broker/broker.h"
#include "daemon/broker/clients.h"
#include "daemon/plan/detail.h"
#include "daemon/prover/prover.h"
#include "daemon/proxy/proxy.h"
#include "lib/base/macro.h"
#include "lib/proc/maps.h"

#define NOBODY 65534
#define TYPES_MAX (BROKER_SNAPSHOT_END + 3)

struct front {
	struct proxy *proxy;
	pid_t own, foreign;
	uint32_t user, nobody; /* ids of clients */
	/* Of the first slots: ids begin at a random number. */
	uint32_t first_capture, first_file;
	unsigned violations, answered, refused;
	unsigned seed;
};

static unsigned violation(struct front *f, const char *text, long number)
{
	printf("violation: %s (%ld)\n", text, number);
	return ++f->violations;
}

static uint32_t any(struct front *f)
{
	f->seed = f->seed * 1103515245 + 12345;
	return f->seed >> 8;
}

/* Small numbers, ids that exist, limits, and anything. */
static uint32_t number(struct front *f)
{
	const uint32_t some[] = { 0,
				  1,
				  2,
				  any(f) % 16,
				  f->user,
				  f->nobody,
				  (uint32_t)f->own,
				  (uint32_t)f->foreign,
				  BROKER_DAEMON,
				  f->first_capture + any(f) % (BROKER_MAX_CAPTURES + 1),
				  f->first_file + any(f) % 64,
				  f->first_file + BROKER_MAX_FILES,
				  KIND_COUNT,
				  INT32_MAX,
				  any(f) << 8 ^ any(f) };

	return some[any(f) % ARRAY_SIZE(some)];
}

static uint32_t type_of(struct front *f)
{
	/* These take long, and change little. */
	static const uint16_t one_of[TYPES_MAX] = {
		[BROKER_CALIBRATE] = 500, [BROKER_PREFLIGHT] = 500, [BROKER_CAPTURE] = 20
	};
	uint32_t type;

	do
		type = any(f) % TYPES_MAX;
	while (one_of[type] && any(f) % one_of[type]);
	return type;
}

static int call(struct front *f, struct broker_message *m, int *ret_fds, unsigned *ret_n)
{
	int r = proxy_call(f->proxy, m, ret_fds, ret_n);

	r < 0 ? f->refused++ : f->answered++;
	if (r == -EPIPE) {
		printf("the broker has ended\n");
		_exit(3);
	}
	return r;
}

/* The mapped code of a process; only the files that a pack knows have plans with sites. */
struct mapping {
	uint64_t start, end;
};

struct mappings {
	struct mapping list[64];
	unsigned n;
};

static int on_mapping(const struct maps_entry *e, void *data)
{
	struct mappings *found = data;

	if (e->executable && e->inode && found->n < ARRAY_SIZE(found->list))
		found->list[found->n++] = (struct mapping){ e->start, e->end };
	return 0;
}

static struct mappings mappings_of(struct front *f, pid_t pid)
{
	struct broker_message m = { .type = BROKER_MAPS, .pid = (uint32_t)pid };
	struct mappings found = {};
	unsigned n;
	int fd;

	if (call(f, &m, &fd, &n) >= 0) {
		maps_read(fd, on_mapping, &found);
		close(fd);
	}
	return found;
}

static int open_file(struct front *f, pid_t pid, struct mapping mapping, uint32_t *ret)
{
	struct broker_message m = { .type = BROKER_OPEN,
				    .pid = (uint32_t)pid,
				    .start = mapping.start,
				    .end = mapping.end };
	int r = call(f, &m, NULL, NULL);

	*ret = m.id;
	return r;
}

static int plan_file(struct front *f, uint32_t file)
{
	for (;;) {
		struct broker_message m = { .type = BROKER_PLAN,
					    .id = file,
					    .plan = { .packs = UINT64_MAX } };
		unsigned n = 0;
		int fd, r = call(f, &m, &fd, &n);

		if (n)
			close(fd);
		if (r != -EINPROGRESS)
			return r;
		usleep(2000);
	}
}

/* For every kind but one: no client may have decrypted requests. */
#define ALLOWED (((1u << KIND_COUNT) - 1) & ~(1u << KIND_DECRYPTED))

static int begin_with(struct front *f, uint32_t client, uint32_t kinds, uint32_t *ret)
{
	struct broker_message m = {
		.type = BROKER_CAPTURE, .id = client, .kinds = kinds, .count = 99
	};
	int fds[BROKER_MAX_FDS], r;
	unsigned n = 0;

	r = call(f, &m, fds, &n);
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
	*ret = m.id;
	return r;
}

static int begin(struct front *f, uint32_t client, uint32_t *ret)
{
	return begin_with(f, client, ALLOWED, ret);
}

static int add_target(struct front *f, uint32_t capture, pid_t pid)
{
	return call(f,
		    &(struct broker_message){
			    .type = BROKER_TARGET, .id = capture, .pid = (uint32_t)pid },
		    NULL, NULL);
}

static void end(struct front *f, uint32_t capture)
{
	call(f, &(struct broker_message){ .type = BROKER_END, .id = capture }, NULL, NULL);
}

static int send_sites(struct front *f, uint32_t capture, uint32_t file, int first, int last)
{
	struct broker_message m = { .type = BROKER_SITES, .id = capture, .file = file };

	for (int i = first; i <= last; i++)
		m.sites.words[i / 64] |= UINT64_C(1) << i % 64;
	return call(f, &m, NULL, NULL);
}

/* Each is one that must be refused. */
static void send_crafted(struct front *f)
{
	struct mappings own = mappings_of(f, f->own), foreign = mappings_of(f, f->foreign);
	uint32_t capture, file, other;
	unsigned attached = 0;

	if (begin(f, f->nobody, &capture) < 0)
		violation(f, "a client cannot capture at all", 0);
	f->first_capture = capture;
	if (add_target(f, capture, f->foreign) >= 0)
		violation(f, "nobody may profile a process of root", f->foreign);
	if (add_target(f, capture, 1) >= 0)
		violation(f, "nobody may profile init", 1);
	end(f, capture);
	if (begin(f, BROKER_DAEMON, &capture) >= 0)
		violation(f, "the daemon captures without being configured to", 0);
	for (uint32_t id = 0; id < 64; id++)
		if (id != f->nobody && id != f->user && begin(f, id + 7, &capture) >= 0)
			violation(f, "a client that does not exist captures", id);
	if (begin_with(f, f->user, 1u << KIND_DECRYPTED, &capture) >= 0 &&
	    add_target(f, capture, f->own) >= 0)
		violation(f, "the user may not read what is decrypted", f->own);
	end(f, capture);
	if (begin(f, f->user, &capture) < 0 || add_target(f, capture, f->own) < 0)
		violation(f, "the user cannot capture", f->own);
	if (add_target(f, capture, f->foreign) >= 0)
		violation(f, "the user may not profile a process of root", f->foreign);
	for (unsigned i = 0; i < own.n; i++) {
		if (open_file(f, f->own, own.list[i], &file) < 0)
			continue;
		f->first_file = i ? f->first_file : file;
		if (send_sites(f, capture, file, 0, 0) >= 0)
			violation(f, "sites without a plan", i);
		if (plan_file(f, file) < 0)
			continue;
		/* One after the other: what is no site is refused, whatever its number. */
		for (int n = 0; n < 200; n++)
			attached += send_sites(f, capture, file, n, n) >= 0;
		if (send_sites(f, capture, file, PLAN_SITES_MAX - 1, PLAN_SITES_MAX - 1) >= 0)
			violation(f, "a site beyond the plan", i);
	}
	if (!attached)
		violation(f, "no site at all was accepted: nothing was tried", 0);
	printf("%u sites were accepted\n", attached);
	for (unsigned i = 0; i < foreign.n; i++)
		if (open_file(f, f->foreign, foreign.list[i], &other) >= 0 &&
		    plan_file(f, other) >= 0 && send_sites(f, capture, other, 0, 0) >= 0)
			violation(f, "sites in the file of another process", i);
	/* Ranges that are no mapping. */
	for (unsigned i = 0; i < own.n; i++)
		for (int by = -4096; by <= 4096; by += 4096) {
			struct mapping near = { own.list[i].start + (uint64_t)by,
						own.list[i].end + (uint64_t)by };

			if (by && open_file(f, f->own, near, &other) >= 0)
				violation(f, "a file was opened at a range that is no mapping", by);
		}
	call(f, &(struct broker_message){ .type = BROKER_ATTACH, .id = capture }, NULL, NULL);
	printf("attached\n");
	fflush(stdout);
	sleep(1);
	end(f, capture);
}

/* A socket with the identity of another process, in place of a client's connection. */
static void send_connections(struct front *f)
{
	const uint32_t clients[] = { f->user, f->nobody, f->user + BROKER_MAX_CLIENTS, 0 };
	int pair[2];

	/* Its peer is root. */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		_exit(4);
	for (unsigned i = 0; i < ARRAY_SIZE(clients); i++)
		for (int fd = 0; fd <= pair[1]; fd++)
			if (fcntl(fd, F_GETFD) >= 0 && proxy_return(f->proxy, clients[i], fd) >= 0)
				violation(f, "a connection that no earlier broker accepted", fd);
	close(pair[0]);
	close(pair[1]);
}

static void check_descriptor(struct front *f, const struct broker_message *m, int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	if (fstat(fd, &st) < 0 || flags < 0)
		violation(f, "a descriptor that is none", m->type);
	/* A snapshot is written and not read. */
	else if (m->type == BROKER_SNAPSHOT) {
		if ((flags & O_ACCMODE) != O_WRONLY || write(fd, "x", 1) != 1)
			violation(f, "a snapshot that cannot be written, or can be read", 0);
	}
	/* What may be written: a capture's rings and control words, a client's connection, a plan,
	 * which is sealed. */
	else if ((flags & O_ACCMODE) != O_RDONLY && m->type != BROKER_CAPTURE &&
		 m->type != BROKER_ACCEPT && (m->type != BROKER_PLAN || pwrite(fd, "", 1, 0) >= 0))
		violation(f, "a descriptor that can be written", m->type);
	close(fd);
}

static void send_random(struct front *f, long n)
{
	for (long i = 0; i < n; i++) {
		struct broker_message m = { .type = type_of(f),
					    .id = number(f),
					    .pid = number(f),
					    .uid = number(f),
					    .index = number(f),
					    .file = number(f),
					    .kinds = number(f),
					    .count = number(f),
					    .kind = number(f),
					    .start = (uint64_t)number(f) << 12,
					    .end = (uint64_t)number(f) << 12 };
		uint8_t *bytes = (uint8_t *)&m.sites;
		const uint32_t type = m.type;
		int fds[BROKER_MAX_FDS];
		unsigned n_fds = 0;

		for (size_t k = 0; k < sizeof(m.sites); k++)
			bytes[k] = any(f) % 4 ? 0 : (uint8_t)any(f);
		if ((type == BROKER_SNAPSHOT || type == BROKER_SNAPSHOT_END) && any(f) % 8)
			strcpy(m.name, any(f) % 2 ? "slow" : "late");
		/* The clients go on. */
		if (type == BROKER_CLIENT_GONE && (m.id == f->user || m.id == f->nobody))
			continue;
		call(f, &m, fds, &n_fds);
		for (unsigned k = 0; k < n_fds; k++)
			check_descriptor(f, &m, fds[k]);
		/* A capture in which anything may be tried. */
		if (i % 400 == 0) {
			uint32_t capture;

			for (uint32_t k = 0; k < BROKER_MAX_CAPTURES; k++)
				end(f, f->first_capture + k);
			if (begin(f, f->user, &capture) >= 0)
				add_target(f, capture, f->own);
		}
	}
}

/* A connection that the broker accepts; the caller keeps it. */
static int connect_to(struct front *f, const struct sockaddr_un *address, uint32_t *ret_client)
{
	struct broker_message m = { .type = BROKER_ACCEPT };
	int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = -1;
	unsigned n = 0;

	if (connect(client, (const struct sockaddr *)address, sizeof(*address)) < 0 ||
	    call(f, &m, &fd, &n) < 0)
		violation(f, "no connection", errno);
	*ret_client = m.id;
	return client;
}

static void become(uid_t user)
{
	if (seteuid(0) < 0 || seteuid(user) < 0)
		_exit(4);
}

static void become_nobody(void)
{
	if (seteuid(0) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
	    setresuid(NOBODY, NOBODY, NOBODY) < 0)
		_exit(4);
}

/* The user's client goes, and the front says nothing of it. */
static void check_end_of_authority(struct front *f, int client)
{
	uint32_t capture, other;

	for (uint32_t k = 0; k < BROKER_MAX_CAPTURES; k++)
		end(f, k);
	if (begin(f, f->user, &capture) < 0 || add_target(f, capture, f->own) < 0)
		violation(f, "the user cannot capture any more", f->own);
	close(client);
	sleep(1);
	if (begin(f, f->user, &other) >= 0)
		violation(f, "a client that has gone begins a capture", f->user);
	if (add_target(f, capture, f->own) >= 0)
		violation(f, "the capture of a client that has gone goes on", capture);
}

static void play(struct front *f, const struct sockaddr_un *address, uid_t user, long n)
{
	int client;

	become(user);
	client = connect_to(f, address, &f->user);
	become_nobody();
	connect_to(f, address, &f->nobody);
	send_crafted(f);
	send_connections(f);
	send_random(f, n);
	check_end_of_authority(f, client);
	printf("%u answered, %u refused\n", f->answered, f->refused);
	if (call(f, &(struct broker_message){ .type = BROKER_MODE }, NULL, NULL) < 0)
		violation(f, "the broker does not answer", 0);
	printf("%u violations\n", f->violations);
	fflush(stdout);
	_exit(f->violations > 0);
}

/* Where the broker keeps snapshots; it can write nowhere else. */
static int make_snapshots(const char *state)
{
	char path[256];

	snprintf(path, sizeof(path), "%.200s/snapshots", state);
	if (mkdir(path, 0755) < 0 || chown(path, NOBODY, NOBODY) < 0)
		return -1;
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int listen_at(const char *state, struct sockaddr_un *ret)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(ret->sun_path, sizeof(ret->sun_path), "%s/socket", state);
	if (bind(fd, (struct sockaddr *)ret, sizeof(*ret)) < 0 || listen(fd, 8) < 0 ||
	    chmod(ret->sun_path, 0666) < 0)
		return -1;
	return fd;
}

int main(int argc, char *argv[])
{
	int quick[2], captures[2], events[2], prover[2], status = 0;
	struct listener listener = { .kind = LISTENER_CLEAR };
	struct authority authority = {};
	struct broker_options options;
	struct sockaddr_un address;
	struct front f = {};
	pid_t child;

	if (argc != 7) {
		fputs("usage: hostile_front STATE-DIRECTORY USER OWN-PID FOREIGN-PID MESSAGES SEED\n",
		      stderr);
		return 2;
	}
	f.own = atoi(argv[3]);
	f.foreign = atoi(argv[4]);
	f.seed = (unsigned)atoi(argv[6]);
	listener.fd = listen_at(argv[1], &address);
	if (listener.fd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, quick) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, captures) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, events) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, prover) < 0) {
		perror("hostile_front");
		return 4;
	}
	signal(SIGPIPE, SIG_IGN);
	if (fork() == 0) {
		if (dup2(prover[1], 3) < 0 || close_range(4, ~0u, 0) < 0)
			_exit(4);
		_exit(prover_run(3, &(struct sandbox_user){ NOBODY, NOBODY }) < 0);
	}
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(quick[0]);
		close(captures[0]);
		close(events[0]);
		close(prover[0]);
		close(prover[1]);
		if (proxy_new((int[]){ quick[1], captures[1] }, &f.proxy) < 0)
			_exit(4);
		play(&f, &address, (uid_t)atoi(argv[2]), atol(argv[5]));
	}
	close(quick[1]);
	close(captures[1]);
	close(events[1]);
	close(prover[1]);
	fcntl(events[0], F_SETFL, O_NONBLOCK);
	options = (struct broker_options){ .requests = quick[0],
					   .captures = captures[0],
					   .events = events[0],
					   .prover = prover[0],
					   .listeners = &listener,
					   .n_listeners = 1,
					   .clients = clients_memory_new(),
					   .notes = open("/dev/null", O_WRONLY | O_CLOEXEC),
					   .user = { NOBODY, NOBODY },
					   .connections = { .all = 256, .per_user = 256 },
					   .user_ring_bytes = UINT64_MAX,
					   .authority = &authority,
					   .certificates = "",
					   .state = open(argv[1], O_RDONLY | O_DIRECTORY),
					   .predecessor = -1,
					   .snapshots = { .directory = make_snapshots(argv[1]),
							  .triggers = { 2, { "slow", "late" } },
							  .keep = 3,
							  .bytes = 100 } };
	for (unsigned i = 0; i < BROKER_RELOAD_COUNT; i++)
		options.reload[i] = "";
	broker_run(&options);
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 5;
}
