/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/identity.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

struct diag_request {
	struct nlmsghdr header;
	struct inet_diag_req_v2 body;
};

/* The owner of the TCP socket with this local and this remote end. */
static int owner_of_socket(int diag, const struct sockaddr_storage *local,
			   const struct sockaddr_storage *remote, uid_t *ret)
{
	struct diag_request request = {
		.header = { .nlmsg_len = sizeof(request),
			    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			    .nlmsg_flags = NLM_F_REQUEST },
		.body = { .sdiag_family = (uint8_t)local->ss_family,
			  .sdiag_protocol = IPPROTO_TCP,
			  .idiag_states = ~0u,
			  .id = { .idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } } },
	};
	union {
		char bytes[4096];
		struct nlmsghdr header;
	} answer;
	struct inet_diag_msg *found;
	ssize_t n;

	if (local->ss_family == AF_INET) {
		const struct sockaddr_in *l = (const void *)local, *r = (const void *)remote;

		request.body.id.idiag_sport = l->sin_port;
		request.body.id.idiag_dport = r->sin_port;
		memcpy(request.body.id.idiag_src, &l->sin_addr, sizeof(l->sin_addr));
		memcpy(request.body.id.idiag_dst, &r->sin_addr, sizeof(r->sin_addr));
	} else {
		const struct sockaddr_in6 *l = (const void *)local, *r = (const void *)remote;

		request.body.id.idiag_sport = l->sin6_port;
		request.body.id.idiag_dport = r->sin6_port;
		memcpy(request.body.id.idiag_src, &l->sin6_addr, sizeof(l->sin6_addr));
		memcpy(request.body.id.idiag_dst, &r->sin6_addr, sizeof(r->sin6_addr));
	}
	if (send(diag, &request, sizeof(request), 0) < 0)
		return -errno;
	n = recv(diag, &answer, sizeof(answer), 0);
	if (n < 0)
		return -errno;
	if (!NLMSG_OK(&answer.header, (size_t)n))
		return -EBADMSG;
	if (answer.header.nlmsg_type == NLMSG_ERROR)
		return -EACCES;
	if (answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    answer.header.nlmsg_len < NLMSG_LENGTH(sizeof(*found)))
		return -EBADMSG;
	found = NLMSG_DATA(&answer.header);
	/* A socket that its process has closed has no owner; the kernel then reports root. */
	if (found->idiag_inode == 0)
		return -EACCES;
	*ret = found->idiag_uid;
	return 0;
}

int identity_of_connection(int fd, int diag, uid_t *ret)
{
	struct sockaddr_storage here = {}, there = {};
	socklen_t size = sizeof(here);

	if (getsockname(fd, (struct sockaddr *)&here, &size) < 0)
		return -errno;
	if (here.ss_family == AF_UNIX) {
		struct ucred peer;

		size = sizeof(peer);
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
			return -errno;
		*ret = peer.uid;
		return 0;
	}
	if (here.ss_family != AF_INET && here.ss_family != AF_INET6)
		return -EACCES;
	size = sizeof(there);
	if (getpeername(fd, (struct sockaddr *)&there, &size) < 0)
		return -errno;
	return owner_of_socket(diag, &there, &here, ret);
}

int identity_of_process(pid_t pid, uid_t *ret)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (stat(path, &st) < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	*ret = st.st_uid;
	return 0;
}
