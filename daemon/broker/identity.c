/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/identity.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>

#include "daemon/broker/process.h"
#include "lib/base/macro.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since 6.5 */
#endif
/* More of a process are not looked at. */
#define GROUPS_MAX 1024

struct diag_request {
	struct nlmsghdr header;
	struct inet_diag_req_v2 body;
};

int diag_open(struct diag *ret)
{
	ret->sequence = 0;
	ret->fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	return ret->fd < 0 ? -errno : 0;
}

/* The source is the end whose socket is looked for. Returns its size. */
static size_t put_address(const struct sockaddr_storage *address, __be32 words[static 4],
			  __be16 *port)
{
	if (address->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)address;

		*port = in->sin_port;
		memcpy(words, &in->sin_addr, sizeof(in->sin_addr));
		return sizeof(in->sin_addr);
	}
	const struct sockaddr_in6 *in6 = (const void *)address;

	*port = in6->sin6_port;
	memcpy(words, &in6->sin6_addr, sizeof(in6->sin6_addr));
	return sizeof(in6->sin6_addr);
}

/* Whether the answer's address is the one that was asked for: a socket for both families reports
 * an IPv4 address as ::ffff:a.b.c.d. */
static bool is_address(uint8_t family, const __be32 found[static 4], const __be32 asked[static 4],
		       uint8_t asked_family)
{
	if (family == asked_family)
		return !memcmp(found, asked, asked_family == AF_INET ? 4 : 16);
	return family == AF_INET6 && asked_family == AF_INET && !found[0] && !found[1] &&
	       found[2] == htonl(0xffff) && found[3] == asked[0];
}

/* The answer to the request with this number; older ones are left over from a request that failed.
 */
static int receive_answer(const struct diag *diag, struct inet_diag_msg *ret)
{
	union {
		char bytes[4096];
		struct nlmsghdr header;
	} answer;

	for (;;) {
		struct sockaddr_nl from = {};
		socklen_t size = sizeof(from);
		ssize_t n = recvfrom(diag->fd, &answer, sizeof(answer), MSG_DONTWAIT,
				     (struct sockaddr *)&from, &size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (from.nl_pid || !NLMSG_OK(&answer.header, (size_t)n) ||
		    answer.header.nlmsg_seq != diag->sequence)
			continue;
		if (answer.header.nlmsg_type == NLMSG_ERROR)
			return -EACCES;
		if (answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
		    answer.header.nlmsg_len < NLMSG_LENGTH(sizeof(*ret)))
			return -EBADMSG;
		memcpy(ret, NLMSG_DATA(&answer.header), sizeof(*ret));
		return 0;
	}
}

/*
 * The open TCP socket from there to here, in one of the states. Without such a socket the kernel
 * answers with a listening one of the port: the answer must repeat the addresses. -EACCES: none.
 */
static int find_socket(struct diag *diag, const struct sockaddr_storage *there,
		       const struct sockaddr_storage *here, unsigned states,
		       struct inet_diag_msg *ret)
{
	struct diag_request request = {
		.header = { .nlmsg_len = sizeof(request),
			    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			    .nlmsg_flags = NLM_F_REQUEST,
			    .nlmsg_seq = ++diag->sequence },
		.body = { .sdiag_family = (uint8_t)there->ss_family,
			  .sdiag_protocol = IPPROTO_TCP,
			  .idiag_states = states,
			  .id = { .idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } } },
	};
	struct inet_diag_sockid *id = &request.body.id;
	int r;

	put_address(there, id->idiag_src, &id->idiag_sport);
	put_address(here, id->idiag_dst, &id->idiag_dport);
	if (send(diag->fd, &request, sizeof(request), 0) < 0)
		return -errno;
	r = receive_answer(diag, ret);
	if (r < 0)
		return r;
	if (ret->id.idiag_sport != id->idiag_sport || ret->id.idiag_dport != id->idiag_dport ||
	    !is_address(ret->idiag_family, ret->id.idiag_src, id->idiag_src,
			request.body.sdiag_family) ||
	    !is_address(ret->idiag_family, ret->id.idiag_dst, id->idiag_dst,
			request.body.sdiag_family) ||
	    ret->idiag_state > TCP_CLOSING || !(states >> ret->idiag_state & 1))
		return -EACCES;
	/* A socket that its process has closed has no owner; the kernel then reports root. */
	return ret->idiag_inode ? 0 : -EACCES;
}

int identity_of_tcp(int fd, struct diag *diag, struct remote_end *ret)
{
	struct inet_diag_msg found, again;
	struct remote_end end = {};
	socklen_t size = sizeof(end.here);
	int r;

	if (getsockname(fd, (struct sockaddr *)&end.here, &size) < 0)
		return -errno;
	size = sizeof(end.there);
	if (getpeername(fd, (struct sockaddr *)&end.there, &size) < 0)
		return -errno;
	if ((end.here.ss_family != AF_INET && end.here.ss_family != AF_INET6) ||
	    end.here.ss_family != end.there.ss_family)
		return -EACCES;
	r = find_socket(diag, &end.there, &end.here, 1u << TCP_ESTABLISHED, &found);
	if (r == 0)
		r = find_socket(diag, &end.there, &end.here, 1u << TCP_ESTABLISHED, &again);
	if (r < 0)
		return r;
	if (found.idiag_uid != again.idiag_uid || found.idiag_inode != again.idiag_inode ||
	    memcmp(found.id.idiag_cookie, again.id.idiag_cookie, sizeof(end.cookie)))
		return -EACCES;
	memcpy(end.cookie, found.id.idiag_cookie, sizeof(end.cookie));
	end.uid = found.idiag_uid;
	*ret = end;
	return 0;
}

bool identity_is_connected(int fd, struct diag *diag, const struct remote_end *end)
{
	struct sockaddr_storage there = {};
	socklen_t size = sizeof(there);
	struct inet_diag_msg found;

	/* Whoever holds a copy of the connection could have connected it to another client. */
	return getpeername(fd, (struct sockaddr *)&there, &size) == 0 &&
	       !memcmp(&there, &end->there, sizeof(there)) &&
	       find_socket(diag, &end->there, &end->here,
			   1u << TCP_ESTABLISHED | 1u << TCP_FIN_WAIT1 | 1u << TCP_FIN_WAIT2,
			   &found) == 0 &&
	       found.idiag_uid == end->uid &&
	       !memcmp(found.id.idiag_cookie, end->cookie, sizeof(end->cookie));
}

/* A descriptor of the process that connected. Before 6.5 only its number is known. */
static int open_peer(int fd, const struct ucred *peer)
{
	socklen_t size = sizeof(int);
	int pidfd;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0)
		return pidfd;
	if (errno != ENOPROTOOPT)
		return -EACCES;
	pidfd = (int)syscall(SYS_pidfd_open, peer->pid, 0);
	return pidfd < 0 ? -EACCES : pidfd;
}

static bool has_ended(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 0) != 0;
}

static int read_caller(const struct ucred *peer, struct caller *caller)
{
	_cleanup_close_ int directory = process_open(peer->pid);
	struct process_status status;
	uid_t owner;
	int r;

	if (directory < 0)
		return directory;
	r = process_status_read(directory, &status);
	if (r == 0)
		r = process_namespace(directory, "user", &caller->user_ns);
	if (r == 0)
		r = process_namespace(directory, "pid", &caller->pid_ns);
	if (r == 0)
		r = process_owner(directory, &owner);
	if (r < 0)
		return r;
	/* Capabilities count only if it has not gained them since it connected: one that executed a
	 * file with privileges is another user's, or not dumpable. */
	if (status.effective == peer->uid && owner == peer->uid) {
		caller->effective = status.effective_caps;
		caller->permitted = status.permitted_caps;
	}
	return 0;
}

void identity_name(int fd, const struct authority *authority, struct caller *caller)
{
	gid_t groups[GROUPS_MAX + 1];
	socklen_t groups_size = GROUPS_MAX * sizeof(groups[0]);
	socklen_t peer_size = sizeof(struct ucred);
	struct ucred peer;
	size_t n = 0;

	if (caller->kind == CALLER_PROCESS) {
		if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &groups_size) == 0)
			n = groups_size / sizeof(groups[0]);
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) == 0)
			groups[n++] = peer.gid;
	}
	authority_name(authority, caller, groups, n);
}

int identity_of_unix(int fd, const struct authority *authority, struct caller *ret)
{
	struct caller caller = { .kind = CALLER_PROCESS };
	_cleanup_close_ int pidfd = -1;
	struct ucred peer;
	socklen_t size = sizeof(peer);
	int r;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	caller.uid = peer.uid;
	/* It lives outside of the pid namespace of this daemon. */
	if (!peer.pid) {
		caller.kind = CALLER_TCP;
		identity_name(fd, authority, &caller);
		*ret = caller;
		return 0;
	}
	pidfd = open_peer(fd, &peer);
	if (pidfd < 0)
		return pidfd;
	r = read_caller(&peer, &caller);
	/* While it lives, its number and what was read are its own. */
	if (r < 0 || has_ended(pidfd))
		return -EACCES;
	identity_name(fd, authority, &caller);
	*ret = caller;
	return 0;
}

int identity_of_process(pid_t pid, uid_t *ret)
{
	_cleanup_close_ int directory = process_open(pid);

	return directory < 0 ? directory : process_owner(directory, ret);
}
