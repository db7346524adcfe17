/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/clients.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "daemon/broker/certificates.h"
#include "daemon/broker/identity.h"
#include "lib/base/macro.h"
#include "tests/unit/check.h"

static unsigned n_gone;
static uint32_t last_gone;

static void on_gone(uint32_t id, void *data)
{
	n_gone++;
	last_gone = id;
}

/* Of the table, which outlives the clients. */
static int memory = -1;

/* Another broker of the same front. */
static struct clients *begin_again(struct authority *authority, const char *certificates)
{
	struct clients *c = NULL;

	n_gone = 0;
	*authority = (struct authority){};
	CHECK_EQ(clients_new(&(struct clients_options){ .memory = memory,
							.authority = authority,
							.certificates = certificates,
							.gone = on_gone },
			     &c),
		 0);
	return c;
}

static struct clients *begin(struct authority *authority, const char *certificates)
{
	safe_close(memory);
	memory = clients_memory_new();
	CHECK(memory >= 0);
	return begin_again(authority, certificates);
}

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static uint16_t port_of(int fd)
{
	struct sockaddr_in address;
	socklen_t size = sizeof(address);

	CHECK_EQ(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	return ntohs(address.sin_port);
}

static int listen_at(uint16_t port)
{
	struct sockaddr_in address = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	CHECK_EQ(listen(fd, 8), 0);
	return fd;
}

static int connect_to(int listener)
{
	struct sockaddr_in address = loopback(port_of(listener));
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* Another one for each listener: a child that ends later has the ones of its parent, too. */
static struct sockaddr_un abstract_name(bool is_new)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	static unsigned n;
	static pid_t pid;

	pid = pid ?: getpid();
	n += is_new;
	snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "tfprofd-test-%d-%u", pid, n);
	return address;
}

static int listen_unix(void)
{
	struct sockaddr_un address = abstract_name(true);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	CHECK_EQ(listen(fd, 8), 0);
	return fd;
}

static int connect_unix(void)
{
	struct sockaddr_un address = abstract_name(false);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* The id of the client, and the descriptor that the front gets. */
static uint32_t accept_from(struct clients *c, int listener, int *ret_front)
{
	struct broker_message m = {};

	CHECK_EQ(clients_accept(c, &(struct listener){ .fd = listener }, &m, ret_front), 0);
	CHECK_EQ(m.peer.uid, getuid());
	return m.id;
}

static void pause_ms(int ms)
{
	poll(NULL, 0, ms);
}

/* The authority of a client that closes its end, while the front keeps its own. */
static void check_closed(struct clients *c, int listener, int client)
{
	int front;
	uint32_t id = accept_from(c, listener, &front);

	CHECK(clients_caller(c, id));
	clients_update(c, true);
	CHECK_EQ(n_gone, 0);
	shutdown(client, SHUT_WR);
	pause_ms(5);
	clients_update(c, false);
	clients_update(c, true);
	/* It waits for its answer. */
	CHECK(clients_caller(c, id));
	CHECK_EQ(n_gone, 0);
	close(client);
	pause_ms(5);
	clients_update(c, true);
	CHECK_EQ(n_gone, 1);
	CHECK_EQ(last_gone, id);
	CHECK(!clients_caller(c, id));
	CHECK_EQ(clients_remove(c, id), -EINVAL);
	n_gone = 0;
	close(front);
}

TEST(a_client_has_authority_until_its_own_end_is_closed_whatever_the_front_keeps_open)
{
	int tcp = listen_at(0), local = listen_unix();
	struct authority authority;
	struct clients *c = begin(&authority, "");

	check_closed(c, tcp, connect_to(tcp));
	check_closed(c, local, connect_unix());
	clients_free(c);
	close(tcp);
	close(local);
}

TEST(an_end_is_noticed_at_once_and_without_being_asked_for)
{
	int tcp = listen_at(0), local = listen_unix();
	int clients[] = { connect_to(tcp), connect_unix() }, listeners[] = { tcp, local };
	struct authority authority;
	struct clients *c = begin(&authority, "");

	for (unsigned i = 0; i < 2; i++) {
		struct pollfd p = { .fd = clients_fd(c), .events = POLLIN };
		int front;
		uint32_t id = accept_from(c, listeners[i], &front);

		n_gone = 0;
		CHECK_EQ(poll(&p, 1, 0), 0);
		close(clients[i]);
		CHECK_EQ(poll(&p, 1, 1000), 1);
		clients_update(c, false);
		CHECK_EQ(n_gone, 1);
		CHECK_EQ(last_gone, id);
		/* What the front still holds does not make it busy. */
		CHECK_EQ(poll(&p, 1, 0), 0);
		close(front);
	}
	clients_free(c);
	close(tcp);
	close(local);
}

TEST(the_next_broker_knows_a_client_by_the_connection_that_was_accepted_and_by_no_other)
{
	int listener = listen_at(0), client = connect_to(listener), other = connect_to(listener);
	int front, others, pair[2];
	struct authority authority;
	struct clients *c = begin(&authority, "");
	uint32_t id = accept_from(c, listener, &front),
		 other_id = accept_from(c, listener, &others);
	const uid_t uid = clients_caller(c, id)->uid;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	clients_free(c);
	c = begin_again(&authority, "");
	CHECK(!clients_caller(c, id));
	/* Of another client, of the client's own end, of a socket whose peer is root, of no socket.
	 */
	CHECK_EQ(clients_return(c, id, others), -EINVAL);
	CHECK_EQ(clients_return(c, id, client), -EINVAL);
	CHECK_EQ(clients_return(c, id, pair[0]), -EINVAL);
	CHECK_EQ(clients_return(c, id, memory), -EINVAL);
	CHECK_EQ(clients_return(c, id + 1, front), -EINVAL);
	CHECK(!clients_caller(c, id));
	CHECK_EQ(clients_return(c, id, front), 0);
	CHECK(clients_caller(c, id));
	CHECK_EQ(clients_caller(c, id)->uid, uid);
	CHECK_EQ(clients_return(c, id, front), -EINVAL);
	/* It has ended meanwhile. */
	n_gone = 0;
	close(other);
	pause_ms(5);
	CHECK_EQ(clients_return(c, other_id, others), -EINVAL);
	CHECK_EQ(n_gone, 1);
	CHECK_EQ(last_gone, other_id);
	/* As ever from here on. */
	close(client);
	pause_ms(5);
	clients_update(c, true);
	CHECK(!clients_caller(c, id));
	close(listener);
	close(front);
	close(others);
	close(pair[0]);
	close(pair[1]);
	clients_free(c);
}

TEST(the_front_cannot_connect_a_client_s_connection_to_another_client)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int tcp = listen_at(0), other = listen_at(0), client = connect_to(tcp), front, second;
	struct sockaddr_in address = loopback(port_of(other));
	struct authority authority;
	struct clients *c = begin(&authority, "");
	uint32_t id = accept_from(c, tcp, &front);

	CHECK_EQ(connect(front, &none, sizeof(none)), 0);
	CHECK(connect(front, (struct sockaddr *)&address, sizeof(address)) == 0 ||
	      errno == EINPROGRESS);
	second = accept(other, NULL, NULL);
	CHECK(second >= 0);
	CHECK(!clients_caller(c, id));
	CHECK_EQ(n_gone, 1);
	clients_free(c);
	close(front);
	close(second);
	close(client);
	close(tcp);
	close(other);
}

TEST(the_listener_of_a_port_is_not_taken_for_the_client_that_has_left_it)
{
	int tcp = listen_at(0), client = connect_to(tcp), accepted, second, one = 1;
	struct sockaddr_in address = loopback(port_of(client));
	struct remote_end end;
	struct diag diag;

	CHECK_EQ(diag_open(&diag), 0);
	accepted = accept(tcp, NULL, NULL);
	CHECK_EQ(identity_of_tcp(accepted, &diag, &end), 0);
	CHECK_EQ(end.uid, getuid());
	CHECK(identity_is_connected(accepted, &diag, &end));
	/* The kernel forgets the closed socket after a second. */
	setsockopt(client, IPPROTO_TCP, TCP_LINGER2, &one, sizeof(one));
	close(client);
	CHECK_EQ(identity_of_tcp(accepted, &diag, &end), -EACCES);
	for (unsigned i = 0; i < 200; i++) {
		pause_ms(100);
		second = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (bind(second, (struct sockaddr *)&address, sizeof(address)) == 0)
			break;
		close(second);
	}
	CHECK_EQ(listen(second, 1), 0);
	CHECK_EQ(identity_of_tcp(accepted, &diag, &end), -EACCES);
	CHECK(!identity_is_connected(accepted, &diag, &end));
	close(second);
	close(accepted);
	close(tcp);
	close(diag.fd);
}

TEST(a_client_with_a_socket_for_both_families_is_found)
{
	struct sockaddr_in6 address = { .sin6_family = AF_INET6 };
	int tcp = listen_at(0), client = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), front;
	struct authority authority;
	struct clients *c = begin(&authority, "");

	/* gRPC's. */
	inet_pton(AF_INET6, "::ffff:127.0.0.1", &address.sin6_addr);
	address.sin6_port = htons(port_of(tcp));
	CHECK_EQ(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
	CHECK(clients_caller(c, accept_from(c, tcp, &front)));
	clients_free(c);
	close(front);
	close(client);
	close(tcp);
}

TEST(a_process_that_connected_and_ended_is_refused)
{
	struct broker_message m = {};
	int local = listen_unix(), pipe_fds[2], front;
	struct authority authority;
	struct clients *c = begin(&authority, "");
	pid_t child;
	char byte;

	CHECK_EQ(pipe(pipe_fds), 0);
	child = fork();
	if (child == 0) {
		connect_unix();
		/* The grandchild keeps the connection. */
		if (fork() == 0) {
			close(pipe_fds[1]);
			_exit(read(pipe_fds[0], &byte, 1) < 0);
		}
		_exit(0);
	}
	CHECK_EQ(waitpid(child, NULL, 0), child);
	CHECK_EQ(clients_accept(c, &(struct listener){ .fd = local }, &m, &front), -EACCES);
	close(pipe_fds[1]);
	close(pipe_fds[0]);
	clients_free(c);
	close(local);
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	fputs(text, f);
	fclose(f);
	chmod(path, 0644);
}

static int certify(struct clients *c, uint32_t id, const char *name, uid_t *ret)
{
	struct broker_message m = { .id = id };
	int r;

	snprintf(m.name, sizeof(m.name), "%s", name);
	r = clients_certify(c, &m);
	*ret = m.peer.uid;
	return r;
}

TEST(a_certificate_counts_as_the_user_in_the_file_and_as_nobody_without_one)
{
	char path[] = "/tmp/tfprofd-test-XXXXXX";
	int tcp = listen_at(0), client = connect_to(tcp), front, file = mkstemp(path);
	struct listener listener = { .fd = tcp, .is_certified = true };
	struct broker_message m = {};
	struct authority authority;
	struct clients *c;
	uid_t uid;

	close(file);
	if (getuid() != 0) {
		puts("  (as root only: the file belongs to root)");
		unlink(path);
		return;
	}
	write_file(path, "# users\n4711 CN=alice,O=Example Corp\n\nroot  URI:spiffe://a/b \n");
	c = begin(&authority, path);
	CHECK_EQ(clients_accept(c, &listener, &m, &front), 0);
	CHECK_EQ(m.peer.uid, (uid_t)-1);
	CHECK_EQ(clients_caller(c, m.id)->kind, CALLER_UNKNOWN);
	CHECK_EQ(certify(c, m.id, "CN=alice", &uid), -ENOENT);
	CHECK_EQ(certify(c, m.id, "", &uid), -ENOENT);
	CHECK_EQ(certify(c, m.id, "CN=alice,O=Example Corp", &uid), 0);
	CHECK_EQ(uid, 4711);
	CHECK_EQ(clients_caller(c, m.id)->kind, CALLER_CERTIFIED);
	/* The front cannot choose again. */
	CHECK_EQ(certify(c, m.id, "URI:spiffe://a/b", &uid), -EINVAL);
	clients_reload(c);
	CHECK(clients_caller(c, m.id));
	/* A file that cannot be used changes nothing. */
	write_file(path, "nobody-at-all CN=alice,O=Example Corp\n");
	clients_reload(c);
	CHECK(clients_caller(c, m.id));
	write_file(path, "4711 CN=bob\n");
	clients_reload(c);
	CHECK(!clients_caller(c, m.id));
	CHECK_EQ(n_gone, 1);
	clients_free(c);
	unlink(path);
	close(front);
	close(client);
	close(tcp);
}

TEST(a_file_of_certificates_that_others_may_write_is_refused)
{
	char path[] = "/tmp/tfprofd-test-XXXXXX", text[300];
	struct certificates *certificates;
	int file = mkstemp(path);

	close(file);
	write_file(path, "0 CN=alice\n");
	chmod(path, 0664);
	CHECK_EQ(certificates_read(path, &certificates, text, sizeof(text)), -EINVAL);
	CHECK(strstr(text, "that nobody else may write"));
	unlink(path);
	CHECK_EQ(certificates_read(path, &certificates, text, sizeof(text)), -EINVAL);
	CHECK(strstr(text, "cannot read"));
}

/* Rules of which the last one names the group of this process; the others, nobody. */
static struct authority rules_of(unsigned n)
{
	struct authority rules = { .n_rules = n };

	rules.rules[n - 1].group_ids = (struct id_list){ .ids = { getgid() }, .n = 1 };
	return rules;
}

TEST(clients_that_are_connected_are_named_by_the_rules_of_now)
{
	int local = listen_unix(), tcp = listen_at(0), client = connect_unix(), other, front,
	    second;
	struct authority authority, rules = rules_of(3);
	struct clients *c = begin(&authority, "");
	const uint32_t id = accept_from(c, local, &front);
	uint32_t others;

	other = connect_to(tcp);
	others = accept_from(c, tcp, &second);
	CHECK_EQ(clients_caller(c, id)->rules, 0);
	clients_renew(c, &rules);
	CHECK_EQ(clients_caller(c, id)->rules, 1u << 2);
	/* Of a client on TCP no group is known. */
	CHECK_EQ(clients_caller(c, others)->rules, 0);
	rules = rules_of(1);
	rules.rules[0].user_ids = (struct id_list){ .ids = { getuid() }, .n = 1 };
	clients_renew(c, &rules);
	CHECK_EQ(clients_caller(c, id)->rules, 1);
	CHECK_EQ(clients_caller(c, others)->rules, 1);
	/* The next broker has other rules. */
	clients_free(c);
	c = begin_again(&authority, "");
	rules = rules_of(2);
	clients_renew(c, &rules);
	CHECK(!clients_caller(c, id));
	CHECK_EQ(clients_return(c, id, front), 0);
	CHECK_EQ(clients_caller(c, id)->rules, 1u << 1);
	clients_free(c);
	close(local);
	close(tcp);
	close(client);
	close(other);
	close(front);
	close(second);
}

TEST(the_front_learns_what_a_client_is_by_the_rules_of_now)
{
	int tcp = listen_at(0), client = connect_to(tcp), front;
	struct authority authority, rules = { .tcp = TCP_NONE };
	struct clients *c = begin(&authority, "");
	struct broker_message m = {};
	struct authority_peer peer;

	m.id = accept_from(c, tcp, &front);
	CHECK_EQ(clients_describe(c, &m), 0);
	CHECK_EQ(m.peer.uid, getuid());
	CHECK_EQ(m.peer.is_root, getuid() == 0);
	clients_renew(c, &rules);
	CHECK_EQ(clients_describe(c, &m), 0);
	CHECK_EQ(m.peer.uid, (uid_t)-1);
	CHECK(!m.peer.is_root);
	CHECK_EQ(clients_peer(c, m.id, &peer), 0);
	CHECK_EQ(peer.uid, getuid());
	CHECK(!peer.is_root);
	close(client);
	pause_ms(5);
	CHECK_EQ(clients_describe(c, &m), -ECANCELED);
	clients_free(c);
	close(front);
	close(tcp);
}

CHECK_MAIN()
