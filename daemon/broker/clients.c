/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/clients.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "daemon/broker/certificates.h"
#include "daemon/broker/identity.h"
#include "daemon/broker/process.h"
#include "lib/base/log.h"
#include "lib/base/loop.h"
#include "lib/base/macro.h"
#include "lib/base/share.h"
#include "lib/base/shared.h"

#define EVENTS_AT_ONCE 64
#define ACCEPT_FDS 4
/* The front returns the connections of an earlier broker at once. */
#define RETURN_NS 2000000000ull

/* In memory that outlives the broker. */
struct client {
	bool is_used;
	int fd;          /* a copy of the connection; -1: the front has not returned it yet */
	uint64_t cookie; /* of the connection's socket: the kernel gives none twice */
	/* Of the slot, so that an id is not reused. */
	uint32_t generation;
	enum client_kind {
		CLIENT_UNIX,
		CLIENT_TCP,
		CLIENT_CERTIFIED, /* perhaps on another host */
	} kind;
	struct caller caller;
	uid_t holder;                    /* whose share of the connections it has, from the start */
	struct remote_end end;           /* CLIENT_TCP, and the addresses of CLIENT_CERTIFIED */
	char name[CERTIFICATE_NAME_MAX]; /* in its certificate, "": none yet */
};

struct clients {
	struct clients_options options;
	struct certificates *certificates; /* NULL: none is configured */
	struct caller daemon;
	int epoll;
	struct diag diag;
	uint64_t return_by;  /* 0: every client has its connection */
	struct client *list; /* BROKER_MAX_CLIENTS */
};

#define MEMORY_BYTES (sizeof(struct client) * BROKER_MAX_CLIENTS)

int clients_memory_new(void)
{
	return shared_new("clients", MEMORY_BYTES);
}

/* Descriptors of an earlier broker mean nothing to this one. */
static int map_clients(struct clients *c, int memory)
{
	int r = shared_map(memory, MEMORY_BYTES, &c->list);

	if (r < 0)
		return r;
	for (unsigned i = 0; i < BROKER_MAX_CLIENTS; i++)
		if (c->list[i].is_used) {
			c->list[i].fd = -1;
			c->return_by = loop_now() + RETURN_NS;
		}
	return 0;
}

/* A file that cannot be used changes nothing. */
static int read_certificates(struct clients *c, struct certificates **ret)
{
	char text[300];
	int r;

	*ret = NULL;
	if (!*c->options.certificates)
		return 0;
	r = certificates_read(c->options.certificates, ret, text, sizeof(text));
	if (r < 0)
		log_error("%s", text);
	return r;
}

static int find_own_namespaces(struct authority *authority)
{
	_cleanup_close_ int self = process_open(getpid());
	int r = self < 0 ? self : process_namespace(self, "user", &authority->user_ns);

	return r < 0 ? r : process_namespace(self, "pid", &authority->pid_ns);
}

int clients_new(const struct clients_options *options, struct clients **ret)
{
	struct clients *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->options = *options;
	c->daemon =
		(struct caller){ .kind = CALLER_DAEMON, .uid = options->authority->daemon_user };
	c->diag.fd = -1;
	c->epoll = epoll_create1(EPOLL_CLOEXEC);
	r = map_clients(c, options->memory);
	if (r == 0)
		r = diag_open(&c->diag);
	if (r == 0 && c->epoll < 0)
		r = -errno;
	if (r == 0)
		r = find_own_namespaces(options->authority);
	if (r == 0)
		r = read_certificates(c, &c->certificates);
	if (r < 0) {
		clients_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

struct clients *clients_free(struct clients *c)
{
	if (!c)
		return NULL;
	for (unsigned i = 0; i < BROKER_MAX_CLIENTS && c->list; i++)
		if (c->list[i].is_used)
			safe_close(c->list[i].fd);
	if (c->list)
		munmap(c->list, MEMORY_BYTES);
	safe_close(c->epoll);
	safe_close(c->diag.fd);
	certificates_free(c->certificates);
	free(c);
	return NULL;
}

int clients_fd(const struct clients *c)
{
	return c->epoll;
}

static uint32_t id_of(const struct clients *c, const struct client *client)
{
	return client->generation * BROKER_MAX_CLIENTS + (uint32_t)(client - c->list);
}

static void forget(struct clients *c, struct client *client)
{
	uint32_t id = id_of(c, client);

	/* Closing is not enough: the front has a copy. */
	if (client->fd >= 0) {
		epoll_ctl(c->epoll, EPOLL_CTL_DEL, client->fd, NULL);
		close(client->fd);
	}
	client->is_used = false;
	c->options.gone(id, c->options.data);
}

/* Whether a connection still leads to the other host's same port. */
static bool is_same_peer(const struct client *client)
{
	struct sockaddr_storage there = {};
	socklen_t size = sizeof(there);

	return getpeername(client->fd, (struct sockaddr *)&there, &size) == 0 &&
	       !memcmp(&there, &client->end.there, sizeof(there));
}

static bool is_gone(struct clients *c, const struct client *client)
{
	struct pollfd p = { .fd = client->fd, .events = POLLRDHUP };

	if (client->fd < 0)
		return loop_now() > c->return_by;
	if (poll(&p, 1, 0) < 0 || p.revents & (POLLHUP | POLLERR | POLLNVAL))
		return true;
	switch (client->kind) {
	case CLIENT_TCP:
		return !identity_is_connected(client->fd, &c->diag, &client->end);
	case CLIENT_CERTIFIED:
		/* Another host does not report whether its client still reads. */
		return p.revents & POLLRDHUP || !is_same_peer(client);
	default:
		return false;
	}
}

void clients_update(struct clients *c, bool every)
{
	struct epoll_event events[EVENTS_AT_ONCE];
	int n = epoll_wait(c->epoll, events, EVENTS_AT_ONCE, 0);

	for (int i = 0; i < n; i++) {
		struct client *client = &c->list[events[i].data.u32];

		if (!client->is_used)
			continue;
		if (is_gone(c, client)) {
			forget(c, client);
			continue;
		}
		/* It has only ended its sending: the kernel reports the rest of a Unix socket, and
		 * a TCP socket is looked at with every one. */
		events[i].events = 0;
		epoll_ctl(c->epoll, EPOLL_CTL_MOD, client->fd, &events[i]);
	}
	for (unsigned i = 0; i < BROKER_MAX_CLIENTS && every; i++) {
		struct client *client = &c->list[i];

		if (client->is_used && (client->kind != CLIENT_UNIX || client->fd < 0) &&
		    is_gone(c, client))
			forget(c, client);
	}
}

static int identify(struct clients *c, const struct listener *listener, int fd, struct client *ret)
{
	const struct authority *authority = c->options.authority;
	struct sockaddr_storage here = {};
	socklen_t size = sizeof(here);
	int r;

	if (listener->is_certified) {
		ret->kind = CLIENT_CERTIFIED;
		ret->caller = (struct caller){ .kind = CALLER_UNKNOWN, .uid = (uid_t)-1 };
		size = sizeof(ret->end.there);
		return getpeername(fd, (struct sockaddr *)&ret->end.there, &size) < 0 ? -errno : 0;
	}
	if (getsockname(fd, (struct sockaddr *)&here, &size) < 0)
		return -errno;
	if (here.ss_family == AF_UNIX) {
		ret->kind = CLIENT_UNIX;
		return identity_of_unix(fd, authority, &ret->caller);
	}
	ret->kind = CLIENT_TCP;
	r = identity_of_tcp(fd, &c->diag, &ret->end);
	if (r < 0)
		return r;
	ret->caller = (struct caller){ .kind = CALLER_TCP, .uid = ret->end.uid };
	identity_name(fd, authority, &ret->caller);
	return 0;
}

static int cookie_of(int connection, uint64_t *ret)
{
	socklen_t size = sizeof(*ret);

	return getsockopt(connection, SOL_SOCKET, SO_COOKIE, ret, &size) < 0 ? -errno : 0;
}

static struct client *find_free(struct clients *c)
{
	for (unsigned i = 0; i < BROKER_MAX_CLIENTS; i++)
		if (!c->list[i].is_used)
			return &c->list[i];
	return NULL;
}

static bool has_share(const struct clients *c, const struct caller *caller)
{
	const struct share *given = &c->options.connections;
	const struct share share = { .all = given->all + BROKER_SPARE_CLIENTS,
				     .per_user = given->per_user + BROKER_SPARE_CLIENTS };
	uid_t holder = authority_holder(c->options.authority, caller);
	unsigned all = 0, own = 0;

	for (unsigned i = 0; i < BROKER_MAX_CLIENTS; i++) {
		all += c->list[i].is_used;
		own += c->list[i].is_used && c->list[i].holder == holder;
	}
	return share_grant(&share, holder, all, own, 1) == SHARE_GRANTED;
}

/* Whatever the reason, only this connection is refused. */
static int refuse(struct broker_message *m, const char *reason)
{
	snprintf(m->text, sizeof(m->text), "%s", reason);
	return -EACCES;
}

/* The broker keeps a copy of the client's connection. */
static int keep(struct clients *c, struct client *client, unsigned slot, int connection)
{
	struct epoll_event event = { .events = EPOLLRDHUP, .data.u32 = slot };
	int fd = fcntl(connection, F_DUPFD_CLOEXEC, 0);

	if (fd < 0 || epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
		safe_close(fd);
		return -EACCES;
	}
	client->fd = fd;
	return 0;
}

static int add(struct clients *c, const struct listener *listener, int connection,
	       struct broker_message *m)
{
	struct client *client = find_free(c), found = {};

	if (!client)
		return refuse(m, "there are too many connections");
	if (identify(c, listener, connection, &found) < 0)
		return refuse(m, "no process of this host has the other end");
	m->uid = found.caller.uid;
	if (!has_share(c, &found.caller))
		return refuse(m, "the user's share of the connections is held");
	found.holder = authority_holder(c->options.authority, &found.caller);
	found.generation = (client->generation + 1) % (UINT32_MAX / BROKER_MAX_CLIENTS);
	if (cookie_of(connection, &found.cookie) < 0 ||
	    keep(c, &found, (unsigned)(client - c->list), connection) < 0)
		return -EACCES;
	/* Whole, before the next broker could find it. */
	*client = found;
	__atomic_store_n(&client->is_used, true, __ATOMIC_RELEASE);
	m->id = id_of(c, client);
	return 0;
}

static struct client *find(struct clients *c, uint32_t id)
{
	struct client *client = &c->list[id % BROKER_MAX_CLIENTS];

	return client->is_used && client->generation == id / BROKER_MAX_CLIENTS ? client : NULL;
}

const struct caller *clients_caller(struct clients *c, uint32_t id)
{
	struct client *client;

	if (id == BROKER_DAEMON)
		return c->options.captures_on_its_own ? &c->daemon : NULL;
	client = find(c, id);
	if (client && is_gone(c, client)) {
		forget(c, client);
		client = NULL;
	}
	return client && client->fd >= 0 ? &client->caller : NULL;
}

int clients_remove(struct clients *c, uint32_t id)
{
	struct client *client = find(c, id);

	if (!client)
		return -EINVAL;
	forget(c, client);
	return 0;
}

static struct authority_peer peer_of(const struct clients *c, const struct caller *caller)
{
	const struct authority *a = c->options.authority;

	return (struct authority_peer){ .uid = caller->uid,
					.is_root = authority_is_root(a, caller),
					.scope = authority_scope(a, caller),
					.holder = authority_holder(a, caller) };
}

/* What the front needs to know of a client; the broker does not rely on it. */
static void describe(const struct clients *c, const struct caller *caller,
		     struct authority_peer *ret)
{
	*ret = peer_of(c, caller);
	if (caller->kind == CALLER_TCP && c->options.authority->tcp == TCP_NONE)
		ret->uid = (uid_t)-1;
}

int clients_describe(struct clients *c, struct broker_message *m)
{
	const struct caller *caller = clients_caller(c, m->id);

	if (!caller)
		return -ECANCELED;
	describe(c, caller, &m->peer);
	return 0;
}

int clients_peer(struct clients *c, uint32_t id, struct authority_peer *ret)
{
	const struct caller *caller = clients_caller(c, id);

	if (!caller)
		return -ECANCELED;
	if (caller->kind == CALLER_UNKNOWN)
		return -EACCES;
	*ret = peer_of(c, caller);
	return 0;
}

/* Whether there are descriptors for a connection, its copy, and the look at its other end. Without
 * them it waits in the kernel's queue: once accepted, it could only be reset. */
static int check_room(int any_fd)
{
	int fds[ACCEPT_FDS], r = 0;
	unsigned n = 0;

	while (n < ACCEPT_FDS && r == 0) {
		fds[n] = fcntl(any_fd, F_DUPFD_CLOEXEC, 0);
		if (fds[n] < 0)
			r = -errno;
		else
			n++;
	}
	while (n)
		close(fds[--n]);
	return r;
}

int clients_accept(struct clients *c, const struct listener *listener, struct broker_message *m,
		   int *ret_fd)
{
	_cleanup_close_ int connection = -1;
	int r = check_room(listener->fd);

	if (r < 0)
		return r;
	connection = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (connection < 0)
		return -errno;
	m->uid = (uid_t)-1;
	r = add(c, listener, connection, m);
	if (r < 0)
		return r;
	describe(c, &find(c, m->id)->caller, &m->peer);
	m->uid = m->peer.uid;
	*ret_fd = TAKE_FD(connection);
	return 0;
}

/* Whether the user of its certificate is still the same. */
static bool keeps_its_user(const struct clients *c, const struct client *client)
{
	uid_t uid;

	return !*client->name || (certificates_find(c->certificates, client->name, &uid) == 0 &&
				  uid == client->caller.uid);
}

int clients_return(struct clients *c, uint32_t id, int connection)
{
	struct client *client = find(c, id);
	uint64_t cookie;

	if (!client || client->fd >= 0 || cookie_of(connection, &cookie) < 0 ||
	    cookie != client->cookie ||
	    keep(c, client, (unsigned)(client - c->list), connection) < 0)
		return -EINVAL;
	if (!is_gone(c, client) && keeps_its_user(c, client)) {
		/* The rules may be others than those of the earlier broker. */
		identity_name(client->fd, c->options.authority, &client->caller);
		return 0;
	}
	forget(c, client);
	return -EINVAL;
}

int clients_certify(struct clients *c, struct broker_message *m)
{
	struct client *client = find(c, m->id);
	uid_t uid;
	int r;

	_Static_assert(sizeof(m->name) == CERTIFICATE_NAME_MAX, "names in certificates");
	m->name[sizeof(m->name) - 1] = 0;
	if (!client || client->kind != CLIENT_CERTIFIED || *client->name)
		return -EINVAL;
	r = certificates_find(c->certificates, m->name, &uid);
	if (r < 0)
		return r;
	memcpy(client->name, m->name, sizeof(client->name));
	client->caller = (struct caller){ .kind = CALLER_CERTIFIED, .uid = uid };
	identity_name(client->fd, c->options.authority, &client->caller);
	describe(c, &client->caller, &m->peer);
	return 0;
}

int clients_may(struct clients *c, struct broker_message *m)
{
	const struct caller *caller = clients_caller(c, m->id);
	struct authority_ceiling ceiling;
	struct target_facts target;
	int r;

	if (!caller)
		return -ECANCELED;
	r = target_facts_read((pid_t)m->pid, &target);
	if (r < 0)
		return r;
	r = authority_decide(c->options.authority, caller, &target, &ceiling, m->text,
			     sizeof(m->text));
	m->uid = target.owner;
	m->ceiling = ceiling;
	return r;
}

void clients_reload(struct clients *c)
{
	struct certificates *certificates;

	if (read_certificates(c, &certificates) < 0 || !certificates)
		return;
	certificates_free(c->certificates);
	c->certificates = certificates;
	for (unsigned i = 0; i < BROKER_MAX_CLIENTS; i++) {
		struct client *client = &c->list[i];

		if (!client->is_used || keeps_its_user(c, client))
			continue;
		log_info("a certificate no longer belongs to user %u: its client is refused",
			 client->caller.uid);
		forget(c, client);
	}
}

void clients_renew(struct clients *c, const struct authority *rules)
{
	authority_renew(c->options.authority, rules);
	c->daemon.uid = rules->daemon_user;
	for (unsigned i = 0; i < BROKER_MAX_CLIENTS; i++) {
		struct client *client = &c->list[i];

		/* One that has not been returned is named then. */
		if (client->is_used && client->fd >= 0)
			identity_name(client->fd, c->options.authority, &client->caller);
	}
}
