/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/announce.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "lib/base/log.h"
#include "lib/base/macro.h"

#define ADDRESS_TEXT (INET_ADDRSTRLEN + sizeof(((struct sockaddr_un *)0)->sun_path) + 16)

/* In the form that clients use: HOST:PORT, unix:PATH or @NAME. *ret_port is 0 for a Unix socket. */
static const char *address_text(int fd, char text[static ADDRESS_TEXT], uint16_t *ret_port)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_un un;
	} address = {};
	socklen_t size = sizeof(address);
	char host[INET_ADDRSTRLEN] = "";

	*ret_port = 0;
	if (getsockname(fd, &address.any, &size) < 0 ||
	    (address.any.sa_family != AF_INET && address.any.sa_family != AF_UNIX)) {
		snprintf(text, ADDRESS_TEXT, "an unknown address");
	} else if (address.any.sa_family == AF_INET) {
		*ret_port = ntohs(address.in.sin_port);
		inet_ntop(AF_INET, &address.in.sin_addr, host, sizeof(host));
		snprintf(text, ADDRESS_TEXT, "%s:%u", host, *ret_port);
	} else if (*address.un.sun_path) {
		snprintf(text, ADDRESS_TEXT, "unix:%.*s", (int)sizeof(address.un.sun_path),
			 address.un.sun_path);
	} else {
		int length = (int)(size - offsetof(struct sockaddr_un, sun_path)) - 1;

		snprintf(text, ADDRESS_TEXT, "@%.*s", MAX(length, 0), address.un.sun_path + 1);
	}
	return text;
}

/* Ports that were in use leave gaps between the first and the last one. */
static void add_target_ports(FILE *f, const struct listeners *listeners)
{
	uint16_t first = 0, last = 0, port;
	char text[ADDRESS_TEXT];
	unsigned n = 0;

	for (unsigned i = 0; i < listeners->n; i++) {
		if (listeners->list[i].kind != LISTENER_TARGET)
			continue;
		address_text(listeners->list[i].fd, text, &port);
		first = n++ ? first : port;
		last = port;
	}
	if (n)
		fprintf(f, ", %u port%s from %u to %u for single processes", n, n == 1 ? "" : "s",
			first, last);
}

void announce(const struct listeners *listeners)
{
	_cleanup_free_ char *line = NULL;
	char text[ADDRESS_TEXT];
	size_t size = 0;
	FILE *f = open_memstream(&line, &size);
	const char *comma = "";
	uint16_t port;

	log_info("version %s", TFPROFD_VERSION);
	if (!f)
		return;
	for (unsigned i = 0; i < listeners->n; i++) {
		const struct listener *l = &listeners->list[i];

		if (l->kind == LISTENER_TARGET)
			continue;
		fprintf(f, "%s%s%s", comma, address_text(l->fd, text, &port),
			l->kind == LISTENER_TLS ? " (TLS)" : "");
		comma = ", ";
	}
	add_target_ports(f, listeners);
	if (listeners->metrics >= 0)
		fprintf(f, ", %s (metrics)", address_text(listeners->metrics, text, &port));
	if (!fclose(f))
		log_info("listening on %s", line);
}
